#pragma once
// Essay text as words and sentences with running token counts, so that the tokens of any stretch of words are a
// difference of two sums (evaluation.md section 5: a pre-token never spans the cut before a single space that follows
// folded text). The text repeats without end: word i is word i modulo words().

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/text/tokenizer.hpp"

namespace hydra::data {

// Whether a sentence ends after this word: [.?!] and closing quotes or brackets, but no abbreviation or initial.
bool ends_sentence(std::string_view word);

class EssayText {
 public:
  // `folded` must outlive it and have single spaces only.
  EssayText(std::string_view folded, const text::Tokenizer& tokenizer);

  std::int64_t words() const { return static_cast<std::int64_t>(word_begin_.size()) - 1; }
  std::string_view word(std::int64_t index) const;
  // Tokens of the words [begin, end), each with a space before it.
  std::int64_t tokens(std::int64_t begin, std::int64_t end) const {
    return sum(token_sums_, end) - sum(token_sums_, begin);
  }
  // Sentences of the words [begin, end); the last one may be cut.
  std::int64_t sentences(std::int64_t begin, std::int64_t end) const;
  // The word at which sentence `number` of the words [begin, end) starts; `end` for number = sentences(begin, end).
  std::int64_t sentence_start(std::int64_t begin, std::int64_t end, std::int64_t number) const;
  // The words [begin, end) joined by single spaces, appended to `out`.
  void append(std::int64_t begin, std::int64_t end, std::string& out) const;

 private:
  std::int64_t sum(const std::vector<std::int64_t>& sums, std::int64_t index) const {
    return index / words() * sums.back() + sums[static_cast<std::size_t>(index % words())];
  }

  std::string_view folded_;
  std::vector<std::int64_t> word_begin_;  // W + 1 byte offsets; the last is that of a word behind the end
  std::vector<std::int64_t> token_sums_;  // W + 1: tokens of the words before
  std::vector<std::int64_t> break_sums_;  // W + 1: sentence ends among the words before
  std::vector<std::int64_t> breaks_;      // words that end a sentence
};

}  // namespace hydra::data
