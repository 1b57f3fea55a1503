#include "tests/fuzz/token_index_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  return hydra::fuzz::fuzz_token_index(std::as_bytes(std::span(data, size)));
}
