#pragma once
// Any bytes as text for a small tokenizer without normalizer: what is decoded is the text, malformed parts replaced.

#include <cstddef>
#include <span>
#include <string>

#include "hydrahead/base/error.hpp"
#include "hydrahead/text/tokenizer.hpp"
#include "hydrahead/text/unicode.hpp"
#include "tests/support/small_tokenizer.hpp"

namespace hydra::fuzz {

inline int fuzz_bpe(std::span<const std::byte> bytes) {
  static const text::Tokenizer tokenizer =
      text::Tokenizer::parse(test::llama3_style_tokenizer().dump()).value_or_fail("llama3 style");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string clean = text::replace_malformed(text);
  HYDRA_CHECK(text::valid_prefix(clean) == clean.size());
  for (const bool parse_added_tokens : {false, true}) {
    const std::vector<text::TokenId> ids = tokenizer.encode(text, {.parse_added_tokens = parse_added_tokens});
    HYDRA_CHECK(tokenizer.decode(ids) == clean);
    text::StreamDecoder stream(tokenizer, false);
    std::string streamed;
    for (const text::TokenId id : ids) {
      streamed += stream.push(id);
    }
    HYDRA_CHECK(streamed + stream.finish() == clean);
  }
  return 0;
}

}  // namespace hydra::fuzz
