#include "tests/fuzz/tokenizer_json_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  return hydra::fuzz::fuzz_tokenizer_json(std::as_bytes(std::span(data, size)));
}
