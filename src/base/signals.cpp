#include "hydrahead/base/signals.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <utility>

#include "hydrahead/base/error.hpp"

namespace hydra {
namespace {

std::atomic<bool> stop_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the handler may touch lock-free atomics only");

void handle(int) { stop_flag.store(true); }

}  // namespace

void install_stop_signals(std::string_view extra) {
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  if (extra.empty()) {
    return;
  }
  constexpr std::array<std::pair<std::string_view, int>, 3> known{
      {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}}};
  for (const auto& [name, number] : known) {
    if (name == extra) {
      ::sigaction(number, &action, nullptr);
      return;
    }
  }
  fail_request("signal: found '", extra, "', expected USR1, USR2 or HUP");
}

bool stop_requested() { return stop_flag.load(); }
void request_stop() { stop_flag.store(true); }
void clear_stop_request() { stop_flag.store(false); }

}  // namespace hydra
