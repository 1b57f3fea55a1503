#pragma once
// Result of parsers: a value or a message. They never throw on bad bytes, so that a fuzzer can drive them.

#include <string>
#include <utility>
#include <variant>

#include "hydrahead/base/error.hpp"

namespace hydra {

struct ParseError {
  std::string message;
};

template <class T>
class Expected {
 public:
  Expected(T value) : content_(std::move(value)) {}           // NOLINT(google-explicit-constructor)
  Expected(ParseError error) : content_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return std::holds_alternative<T>(content_); }
  const std::string& error() const { return std::get<ParseError>(content_).message; }

  T& operator*() { return std::get<T>(content_); }
  const T& operator*() const { return std::get<T>(content_); }
  T* operator->() { return &std::get<T>(content_); }
  const T* operator->() const { return &std::get<T>(content_); }

  // The value, or a UserError "<where>: <message>".
  T value_or_fail(std::string_view where) && {
    if (!*this) {
      fail_request(where, ": ", error());
    }
    return std::move(std::get<T>(content_));
  }

 private:
  std::variant<T, ParseError> content_;
};

}  // namespace hydra
