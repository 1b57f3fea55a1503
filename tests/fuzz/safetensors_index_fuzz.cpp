#include "tests/fuzz/safetensors_index_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  return hydra::fuzz::fuzz_safetensors_index(std::as_bytes(std::span(data, size)));
}
