#pragma once
// Checks of option values. CLI11's own accept "010" as 8, let numbers beyond 64 bits saturate and print limits with 308
// digits; these take plain decimal numbers and say what was found and what was expected.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace hydra::tools {

// A decimal integer from `low` to `high`, both included.
CLI::Validator integer_from(std::int64_t low, std::int64_t high = std::numeric_limits<std::int64_t>::max());

// A finite number from `low` to `high`, both included.
CLI::Validator number_from(double low, double high = std::numeric_limits<double>::max());

CLI::Validator one_of(std::vector<std::string> words);

}  // namespace hydra::tools
