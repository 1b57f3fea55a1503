#pragma once
// Haystacks of any number of units around needles: their exact token counts without tokenizing them, and their text.
// The context is followed by a newline, which belongs to the count: it may merge with the last character.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "essay_text.hpp"

namespace hydra::data {

class Haystack {
 public:
  virtual ~Haystack() = default;
  virtual std::int64_t most_units() const = 0;
  // Places for a needle: before unit or sentence 0...places(units)-1, and behind the last.
  virtual std::int64_t places(std::int64_t units) const = 0;
  // Tokens of context and newline with needle j at positions[j] (ascending).
  virtual std::int64_t tokens(std::int64_t units, std::span<const std::int64_t> positions) const = 0;
  virtual std::string text(std::int64_t units, std::span<const std::int64_t> positions) const = 0;
};

// Lines joined by newlines: noise, or distractors. Lines are made until `limit` tokens are exceeded.
class LineHaystack : public Haystack {
 public:
  LineHaystack(const std::function<std::string()>& next_line, std::int64_t limit, std::vector<std::string> needles,
               const text::Tokenizer& tokenizer);
  std::int64_t most_units() const override { return static_cast<std::int64_t>(lines_.size()); }
  std::int64_t places(std::int64_t units) const override { return units; }
  std::int64_t tokens(std::int64_t units, std::span<const std::int64_t> positions) const override;
  std::string text(std::int64_t units, std::span<const std::int64_t> positions) const override;

 private:
  std::vector<std::string> lines_, needles_;
  std::vector<std::int64_t> token_sums_;  // of the lines before, each with its newline
  std::int64_t needle_tokens_ = 0;
};

// Words [first_word, first_word + units) of an essay, needles between sentences, all joined by single spaces.
class EssayHaystack : public Haystack {
 public:
  EssayHaystack(const EssayText& essay, std::int64_t first_word, std::int64_t limit, std::vector<std::string> needles,
                const text::Tokenizer& tokenizer);
  std::int64_t most_units() const override { return limit_; }
  std::int64_t places(std::int64_t units) const override { return essay_.sentences(first_, first_ + units); }
  std::int64_t tokens(std::int64_t units, std::span<const std::int64_t> positions) const override;
  std::string text(std::int64_t units, std::span<const std::int64_t> positions) const override;

 private:
  std::int64_t count(std::string_view text) const;

  const EssayText& essay_;
  const text::Tokenizer& tokenizer_;
  std::int64_t first_, limit_;
  std::vector<std::string> needles_;
  std::int64_t needle_tokens_ = 0;  // each with a space before it
};

// A number of units in [least, most] with tokens_of(units) <= room whose successor has more or is beyond `most` (the
// count may fall by a token or two where a needle changes its place, so this need not be the only one); 0 if `least`
// does not fit.
std::int64_t fit_units(std::int64_t least, std::int64_t most, std::int64_t room,
                       const std::function<std::int64_t(std::int64_t)>& tokens_of);

}  // namespace hydra::data
