#pragma once
// Any bytes as a tokenizer.json: refused with a message, or a tokenizer that encodes and decodes.

#include <cstddef>
#include <span>
#include <string_view>

#include "hydrahead/base/error.hpp"
#include "hydrahead/text/tokenizer.hpp"

namespace hydra::fuzz {

inline int fuzz_tokenizer_json(std::span<const std::byte> bytes) {
  const auto tokenizer = text::Tokenizer::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!tokenizer) {
    HYDRA_CHECK(!tokenizer.error().empty());
    return 0;
  }
  const std::string_view text = "it's 12 \xC3\xA9";  // short: a hostile pattern may backtrack without limit
  const std::vector<text::TokenId> ids = tokenizer->encode(text, {.add_special_tokens = true});
  for (const text::TokenId id : ids) {
    HYDRA_CHECK(id >= 0 && id < tokenizer->id_limit());
  }
  tokenizer->decode(ids);
  return 0;
}

}  // namespace hydra::fuzz
