#pragma once
// Reads a Hugging Face tokenizer.json of a byte-level BPE tokenizer. What evaluation.md section 9 lists under "what
// runs" is accepted; everything else is an error naming the field, since an ignored field would silently change ids.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/base/expected.hpp"
#include "hydrahead/text/bpe.hpp"
#include "hydrahead/text/unicode.hpp"
#include "hydrahead/text/vocabulary.hpp"

namespace hydra::text {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;  // matched on the normalized text instead of the raw one
};

struct TokenizerSpec {
  Vocabulary vocabulary;                 // added tokens included
  std::array<TokenId, 256> byte_ids{};   // of the single bytes
  std::vector<Merge> merges;             // by rank
  bool ignore_merges = false;            // a pre-token that is a vocabulary entry is taken whole
  std::vector<NormalForm> normal_forms;  // applied in order
  std::vector<std::string> patterns;     // of the splits, applied in order
  std::vector<AddedToken> added_tokens;
  std::vector<TokenId> prefix, suffix;  // of the post-processor's template
};

Expected<TokenizerSpec> parse_tokenizer_json(std::string_view json);

}  // namespace hydra::text
