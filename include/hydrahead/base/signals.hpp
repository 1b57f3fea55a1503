#pragma once
// SIGTERM, SIGINT and one configurable signal set a flag that every long loop polls; the second signal changes
// nothing, so that a save in progress is not spoilt.

#include <string_view>

namespace hydra {

// Installs the handlers. `extra` names a further signal, for example "USR1" (empty: none); an unknown name is a
// UserError.
void install_stop_signals(std::string_view extra = {});

bool stop_requested();

// For tests and for ranks that are told by another rank.
void request_stop();
void clear_stop_request();

}  // namespace hydra
