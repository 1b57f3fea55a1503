#pragma once
// The two tokenizers that tests use: the 4,096-id one of the nano checkpoint, and the real Qwen3 one.

#include <fstream>

#include "hydrahead/text/tokenizer.hpp"
#include "tests/support/qwen3_tokenizer.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::test {

inline const text::Tokenizer& nano_tokenizer() {
  static const auto tokenizer = text::Tokenizer::load(std::filesystem::path(HYDRA_FIXTURES) / "qwen3-nano");
  return tokenizer;
}

inline const text::Tokenizer& qwen3_tokenizer() {
  static const auto tokenizer = [] {
    const TempDir dir;
    std::ofstream(dir.path() / "tokenizer.json") << qwen3_tokenizer_json();
    return text::Tokenizer::load(dir.path());
  }();
  return tokenizer;
}

}  // namespace hydra::test
