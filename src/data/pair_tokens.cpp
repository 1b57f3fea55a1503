#include "pair_tokens.hpp"

#include <algorithm>

#include "hydrahead/base/error.hpp"

namespace hydra::data {
namespace {

using Ids = std::vector<text::TokenId>;

Ids encode(const std::string& text, const text::Tokenizer& tokenizer) {
  return tokenizer.encode(text, {.add_special_tokens = true});
}

// The prompt's tokens and, apart, those of what continues it; nothing if a token would span the border.
std::optional<std::pair<Ids, Ids>> split(const std::string& prompt, const std::string& answer,
                                         const text::Tokenizer& tokenizer) {
  Ids ids = encode(prompt, tokenizer);
  const Ids whole = encode(prompt + answer, tokenizer);
  if (whole.size() <= ids.size() || !std::equal(ids.begin(), ids.end(), whole.begin())) {
    return std::nullopt;
  }
  return std::pair(std::move(ids), Ids(whole.begin() + static_cast<std::ptrdiff_t>(ids.size()), whole.end()));
}

}  // namespace

Expected<CounterfactualPair> tokenize_pair(const PairTexts& texts, const text::Tokenizer& tokenizer) {
  const auto clean = split(texts.clean, texts.answer, tokenizer);
  const auto corrupt = split(texts.corrupt, texts.distractor, tokenizer);
  if (!clean || !corrupt) {
    return ParseError{"the answer does not begin at a token's border after the prompt, or is empty"};
  }
  const auto& [prompt, answer] = *clean;
  const auto& [other, distractor] = *corrupt;
  if (prompt.size() != other.size()) {
    return ParseError{
        detail::concat("clean has ", prompt.size(), " tokens and corrupt ", other.size(), "; expected equally many")};
  }
  if (answer.size() != distractor.size()) {
    return ParseError{detail::concat("answer+ has ", answer.size(), " tokens and answer- ", distractor.size(),
                                     "; expected equally many")};
  }
  if (prompt == other) {
    return ParseError{"clean and corrupt are the same tokens; expected prompts that differ"};
  }
  CounterfactualPair pair;
  for (std::size_t j = 0; j < answer.size(); ++j) {
    if (answer[j] != distractor[j]) {
      pair.rows.push_back(static_cast<std::int64_t>(prompt.size() + j) - 1);
      pair.answer.push_back(answer[j]);
      pair.distractor.push_back(distractor[j]);
    }
  }
  if (pair.rows.empty()) {
    return ParseError{"answer+ and answer- are the same tokens; expected answers that differ"};
  }
  for (auto [target, source] : {std::pair{&pair.clean, &prompt}, {&pair.corrupt, &other}}) {
    *target = *source;
    target->insert(target->end(), answer.begin(), answer.end() - 1);
  }
  return pair;
}

std::int64_t token_at_byte(const Ids& ids, std::size_t at, const text::Tokenizer& tokenizer) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    end += tokenizer.bytes_of(ids[i]).size();
    if (at < end) {
      return static_cast<std::int64_t>(i);
    }
  }
  HYDRA_CHECK(false, "byte ", at, " lies behind the text of ", ids.size(), " tokens");
}

}  // namespace hydra::data
