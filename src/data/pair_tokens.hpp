#pragma once
// From texts to a counterfactual pair: what all probes share.

#include <string>

#include "hydrahead/base/expected.hpp"
#include "hydrahead/data/counterfactual.hpp"

namespace hydra::data {

// Prompts and what continues each of them: clean + answer, corrupt + distractor. Token counts must match.
struct PairTexts {
  std::string clean, corrupt, answer, distractor;
  // A part of `clean` that ends with the answer, where it can be copied from: its first occurrence. Empty: nowhere.
  std::string source = {};
};

// The pair but for id, probe and capability; or why the texts make none. sources: the answer may be cut into other
// tokens there than behind the prompt, so each answer token's place is the token with the same first byte, where the
// space before a word does not count.
Expected<CounterfactualPair> tokenize_pair(const PairTexts& texts, const text::Tokenizer& tokenizer);

}  // namespace hydra::data
