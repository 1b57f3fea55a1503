#pragma once
// From texts to a counterfactual pair: what all probes share.

#include <optional>
#include <string>
#include <vector>

#include "hydrahead/base/expected.hpp"
#include "hydrahead/data/counterfactual.hpp"

namespace hydra::data {

// Prompts and what continues each of them; the token counts must match.
struct PairTexts {
  std::string clean, corrupt, answer, distractor;
};

// The pair but for id, probe, capability and sources; or why the texts make none.
Expected<CounterfactualPair> tokenize_pair(const PairTexts& texts, const text::Tokenizer& tokenizer);

// The token of `ids` that holds byte `at` of their text.
std::int64_t token_at_byte(const std::vector<text::TokenId>& ids, std::size_t at, const text::Tokenizer& tokenizer);

}  // namespace hydra::data
