#pragma once
// The one exception type of the program and the checks that throw it.
// A UserError means that the request is wrong (bad config, file, tensor; exit status 2): its message names the item,
// what was found and what was expected. Any other Error is a failure while working (exit status 1).

#include <sstream>
#include <stdexcept>
#include <string>

namespace hydra {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class UserError : public Error {
 public:
  using Error::Error;
};

// A signal asked the program to stop and its work was saved (exit status 75).
class Interrupted : public Error {
 public:
  using Error::Error;
};

namespace detail {
template <class... Args>
std::string concat(const Args&... args) {
  std::ostringstream out;
  static_cast<void>((out << ... << args));
  return std::move(out).str();
}
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);
}  // namespace detail

// Throws UserError with the concatenated arguments as its message.
template <class... Args>
[[noreturn]] void fail_request(const Args&... args) {
  throw UserError(detail::concat(args...));
}

}  // namespace hydra

// An invariant of our own code: the message carries file and line.
#define HYDRA_CHECK(condition, ...)                                                                        \
  do {                                                                                                     \
    if (!(condition)) {                                                                                    \
      ::hydra::detail::check_failed(#condition, __FILE__, __LINE__, ::hydra::detail::concat(__VA_ARGS__)); \
    }                                                                                                      \
  } while (false)

// A condition on what the user gave: the message must name the item, what was found and what was expected.
#define HYDRA_REQUIRE(condition, ...)     \
  do {                                    \
    if (!(condition)) {                   \
      ::hydra::fail_request(__VA_ARGS__); \
    }                                     \
  } while (false)
