#include "scalars.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace hydra::config {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Drops a plus sign and single underscores between digits. Nothing for text that is no decimal number.
std::optional<std::string> decimal_text(std::string_view text) {
  std::string digits;
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '_') {
      if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
        return std::nullopt;
      }
    } else if (is_digit(c) || c == '.' || c == 'e' || c == 'E' || c == '-' || c == '+') {
      digits.push_back(c);
    } else {
      return std::nullopt;
    }
  }
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  const bool leading_zero = digits.size() > first + 1 && digits[first] == '0' && is_digit(digits[first + 1]);
  return leading_zero ? std::nullopt : std::optional(digits);
}

template <class T>
std::optional<T> parse_all(std::string_view text) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Doubles hold every integer up to 2^53.
std::optional<std::int64_t> integral(double value) {
  return std::abs(value) <= 9007199254740992.0 && value == std::floor(value)
             ? std::optional(static_cast<std::int64_t>(value))
             : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  const auto digits = decimal_text(text);
  if (!digits) {
    return std::nullopt;
  }
  if (const auto value = parse_all<std::int64_t>(*digits)) {
    return value;
  }
  const auto number = parse_all<double>(*digits);
  return number ? integral(*number) : std::nullopt;
}

std::optional<double> parse_number(std::string_view text) {
  const auto digits = decimal_text(text);
  return digits ? parse_all<double>(*digits) : std::nullopt;
}

std::optional<std::int64_t> parse_token_count(std::string_view text) {
  double factor = 0;
  switch (text.empty() ? '\0' : text.back()) {
    case 'K': factor = 1e3; break;
    case 'M': factor = 1e6; break;
    case 'B': factor = 1e9; break;
    default: return parse_integer(text);
  }
  const auto number = parse_number(text.substr(0, text.size() - 1));
  if (!number) {
    return std::nullopt;
  }
  // 0.3 is no binary fraction: 0.3e9 may be off by a rounding, which is not the user's.
  const double product = *number * factor;
  const double nearest = std::round(product);
  return std::abs(product - nearest) <= 1e-12 * std::abs(product) ? integral(nearest) : std::nullopt;
}

std::optional<bool> parse_flag(std::string_view text) {
  if (text == "true" || text == "false") {
    return text == "true";
  }
  return std::nullopt;
}

std::string format_number(double value) {
  std::array<char, 32> buffer;
  for (int digits = 1;; ++digits) {
    std::snprintf(buffer.data(), buffer.size(), "%.*g", digits, value);
    if (digits == std::numeric_limits<double>::max_digits10 || parse_all<double>(buffer.data()) == value) {
      return buffer.data();
    }
  }
}

}  // namespace hydra::config
