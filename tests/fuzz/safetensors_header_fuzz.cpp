#include "tests/fuzz/safetensors_header_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  return hydra::fuzz::fuzz_safetensors_header(std::as_bytes(std::span(data, size)));
}
