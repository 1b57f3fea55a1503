// translate_pattern: from Oniguruma's dialect (Ruby syntax, UTF-8) to PCRE2's. Only constructs that mean the same in
// both pass; \s and \S become Unicode White_Space, since PCRE2's \s has U+180E besides.

#include <algorithm>
#include <string>

#include "hydrahead/base/error.hpp"
#include "hydrahead/text/regex_splitter.hpp"

namespace hydra::text {
namespace {

constexpr std::string_view white_space =
    R"(\x{09}-\x{0D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view letter_escapes = "rntfdDpPx";
constexpr std::string_view group_openings[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Expected<std::string> run() {
    while (at_ < pattern_.size() && problem_.empty()) {
      in_class_ ? inside_class() : outside_class();
    }
    if (!problem_.empty()) {
      return ParseError{problem_};
    }
    return out_;
  }

 private:
  bool starts_with(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  template <class... Args>
  void refuse(const Args&... construct) {
    problem_ = detail::concat("the pattern has ", construct..., " at offset ", at_,
                              ", which regular expression engines read differently");
  }
  void copy(std::size_t count) {
    out_.append(pattern_.substr(at_, count));
    at_ += count;
  }

  void escape() {
    if (at_ + 1 == pattern_.size()) {
      return refuse("a lone backslash");
    }
    const char c = pattern_[at_ + 1];
    if (c == 's' || (c == 'S' && !in_class_)) {
      out_.append(in_class_ ? "" : c == 's' ? "[" : "[^").append(white_space).append(in_class_ ? "" : "]");
      at_ += 2;
      if (in_class_ && starts_with("-") && !starts_with("-]")) {
        refuse("'-' behind \\s in a class");
      }
    } else if (is_alphanumeric(c) && letter_escapes.find(c) == std::string_view::npos) {
      refuse("\\", c, in_class_ ? " in a class" : "");
    } else {
      copy(2);
      if (is_alphanumeric(c) && starts_with("{")) {  // \p{..}, \x{..}; an open end is left to PCRE2
        copy(std::min(pattern_.find('}', at_), pattern_.size() - 1) + 1 - at_);
      }
    }
  }

  void inside_class() {
    const char c = pattern_[at_];
    if (c == '\\') {
      escape();
    } else if (c == '[') {
      refuse("'[' in a class");
    } else if (starts_with("&&")) {
      refuse("'&&' in a class");
    } else {
      in_class_ = c != ']';
      copy(1);
    }
  }

  void outside_class() {
    const char c = pattern_[at_];
    if (c == '\\') {
      escape();
    } else if (c == '[') {
      in_class_ = true;
      copy(starts_with("[^") ? 2 : 1);
      if (starts_with("]")) {
        refuse("']' first in a class");
      }
    } else if (c == '^' || c == '$') {
      refuse("'", c, "'");
    } else if (starts_with("}+") || starts_with("{,")) {
      refuse("'", pattern_.substr(at_, 2), "'");
    } else if (c == '(' && (starts_with("(?") || starts_with("(*"))) {
      for (const std::string_view opening : group_openings) {
        if (starts_with(opening)) {
          return copy(opening.size());
        }
      }
      refuse("'", pattern_.substr(at_, 3), "'");
    } else {
      copy(1);
    }
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
  std::string problem_;
};

}  // namespace

Expected<std::string> translate_pattern(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace hydra::text
