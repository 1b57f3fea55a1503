#include "option_checks.hpp"

#include <charconv>
#include <utility>

#include "hydrahead/base/error.hpp"

namespace hydra::tools {
namespace {

template <class Number>
CLI::Validator range(const std::string& kind, Number low, Number high) {
  const bool open = high == std::numeric_limits<Number>::max();
  const std::string limits = open ? detail::concat(">= ", low) : detail::concat("from ", low, " to ", high);
  return {[low, high, kind, limits](std::string& text) {
            Number value{};
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            const bool whole = error == std::errc{} && end == text.data() + text.size();
            // Not a number fails both comparisons. A leading zero would be read as octal later.
            const bool plain = text.size() == 1 || text[0] != '0' || text[1] == '.' || text[1] == 'e';
            return whole && plain && value >= low && value <= high
                       ? std::string()
                       : detail::concat("found '", text, "', expected ", kind, " ", limits);
          },
          limits};
}

}  // namespace

CLI::Validator integer_from(std::int64_t low, std::int64_t high) { return range("an integer", low, high); }

CLI::Validator number_from(double low, double high) { return range("a number", low, high); }

CLI::Validator one_of(std::vector<std::string> words) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return {[words = std::move(words), list](std::string& text) {
            for (const std::string& word : words) {
              if (text == word) {
                return std::string();
              }
            }
            return detail::concat("found '", text, "', expected ", list);
          },
          ""};
}

}  // namespace hydra::tools
