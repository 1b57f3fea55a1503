#pragma once
// Log lines on standard error: "[time] [level] message". spdlog lives in src/base/log.cpp alone, since torch ships
// another fmt; callers concatenate their arguments as with a stream.

#include <string_view>

#include "hydrahead/base/error.hpp"

namespace hydra {

enum class LogLevel { debug, info, warning, error };

void log_line(LogLevel level, std::string_view message);
void set_log_level(LogLevel lowest);
// Prefix of every line, for example "rank 3"; empty for none.
void set_log_prefix(std::string_view prefix);

template <class... Args>
void log_info(const Args&... args) {
  log_line(LogLevel::info, detail::concat(args...));
}
template <class... Args>
void log_warning(const Args&... args) {
  log_line(LogLevel::warning, detail::concat(args...));
}
template <class... Args>
void log_error(const Args&... args) {
  log_line(LogLevel::error, detail::concat(args...));
}

}  // namespace hydra
