#pragma once
// Text to numbers, by one documented rule each: the whole text must be the number, and nothing is guessed (010 is no
// octal 8, 12:30 no base 60, 0x10 no hexadecimal).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hydra::config {

// 12, -3, +3, 1_000, and numbers that are integral: 1000.0, 1e3.
std::optional<std::int64_t> parse_integer(std::string_view text);
// Integers and 0.5, .5, 1e-4, 1E-4; no infinities, no NaN.
std::optional<double> parse_number(std::string_view text);
// An integer, or a number times K, M or B (thousand, million, billion): 0.3B = 300,000,000.
std::optional<std::int64_t> parse_token_count(std::string_view text);
// true or false.
std::optional<bool> parse_flag(std::string_view text);

// The fewest digits that read back to the same value.
std::string format_number(double value);

}  // namespace hydra::config
