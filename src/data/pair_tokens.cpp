#include "pair_tokens.hpp"

#include <algorithm>
#include <string_view>

#include "hydrahead/base/error.hpp"

namespace hydra::data {
namespace {

using Ids = std::vector<text::TokenId>;

struct Continued {
  Ids prompt, answer;
};

// Tokens of the joined text, cut where the prompt ends: what a model would see that wrote the answer itself. Names:
// what messages call the two.
Expected<Continued> continued(const std::string& prompt, const std::string& answer, const std::string& prompt_name,
                              const std::string& answer_name, const text::Tokenizer& tokenizer) {
  constexpr text::EncodeOptions special{.add_special_tokens = true};
  Ids ids = tokenizer.encode(prompt, special);
  const Ids whole = tokenizer.encode(prompt + answer, special);
  if (ids.empty() || whole.size() <= ids.size() || !std::equal(ids.begin(), ids.end(), whole.begin())) {
    return ParseError{detail::concat(answer_name, ": found '", answer, "', which shares a token with the end of ",
                                     prompt_name, "; expected an answer that begins with a token of its own (the ",
                                     "space before a word belongs to the answer)")};
  }
  Ids rest(whole.begin() + static_cast<std::ptrdiff_t>(ids.size()), whole.end());
  return Continued{std::move(ids), std::move(rest)};
}

// Tokens laid end to end.
class TokenText {
 public:
  TokenText(const Ids& ids, const text::Tokenizer& tokenizer) {
    for (const text::TokenId id : ids) {
      begin_.push_back(bytes_.size());
      bytes_ += tokenizer.bytes_of(id);
    }
  }
  std::size_t find(const std::string& text) const { return bytes_.find(text); }
  // The first byte of a token that is no space; its first byte if all are.
  std::size_t first_byte(std::size_t token) const {
    const std::size_t end = token + 1 < begin_.size() ? begin_[token + 1] : bytes_.size();
    const std::size_t at = bytes_.find_first_not_of(' ', begin_[token]);
    return at < end ? at : begin_[token];
  }
  std::int64_t token_at(std::size_t byte) const {  // the token that holds it
    return std::upper_bound(begin_.begin(), begin_.end(), byte) - begin_.begin() - 1;
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> begin_;
};

}  // namespace

Expected<CounterfactualPair> tokenize_pair(const PairTexts& texts, const text::Tokenizer& tokenizer) {
  auto clean = continued(texts.clean, texts.answer, "clean", "answer+", tokenizer);
  if (!clean) {
    return ParseError{clean.error()};
  }
  auto corrupt = continued(texts.corrupt, texts.distractor, "corrupt", "answer-", tokenizer);
  if (!corrupt) {
    return ParseError{corrupt.error()};
  }
  const Ids &prompt = clean->prompt, &other = corrupt->prompt;
  const Ids &answer = clean->answer, &distractor = corrupt->answer;
  if (prompt.size() != other.size()) {
    return ParseError{detail::concat("found ", prompt.size(), " tokens in clean and ", other.size(),
                                     " in corrupt; expected equally many")};
  }
  if (answer.size() != distractor.size()) {
    return ParseError{detail::concat("found ", answer.size(), " tokens in answer+ and ", distractor.size(),
                                     " in answer-; expected equally many")};
  }
  if (prompt == other) {
    return ParseError{"found the same tokens in clean and corrupt; expected prompts that differ"};
  }
  if (answer == distractor) {
    return ParseError{"found the same tokens in answer+ and answer-; expected answers that differ"};
  }
  CounterfactualPair pair;
  pair.answer_size = static_cast<std::int64_t>(answer.size());
  const TokenText prompt_text(prompt, tokenizer), answer_text(answer, tokenizer);
  std::size_t answer_begin = 0;  // of the answer in the bytes of the prompt
  if (!texts.source.empty()) {
    const std::size_t at = prompt_text.find(texts.source);
    HYDRA_CHECK(at != std::string::npos && texts.source.ends_with(texts.answer), "the prompt does not hold '",
                texts.source, "' with '", texts.answer, "' at its end");
    answer_begin = at + texts.source.size() - texts.answer.size();
  }
  for (std::size_t j = 0; j < answer.size(); ++j) {
    if (answer[j] == distractor[j]) {
      continue;
    }
    pair.rows.push_back(static_cast<std::int64_t>(prompt.size() + j) - 1);
    pair.answer.push_back(answer[j]);
    pair.distractor.push_back(distractor[j]);
    if (!texts.source.empty()) {
      pair.sources.push_back(prompt_text.token_at(answer_begin + answer_text.first_byte(j)));
    }
  }
  pair.clean = prompt;
  pair.corrupt = other;
  for (Ids* run : {&pair.clean, &pair.corrupt}) {
    run->insert(run->end(), answer.begin(), answer.end() - 1);
  }
  return pair;
}

}  // namespace hydra::data
