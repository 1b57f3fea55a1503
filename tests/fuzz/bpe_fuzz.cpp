#include "tests/fuzz/bpe_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  return hydra::fuzz::fuzz_bpe(std::as_bytes(std::span(data, size)));
}
