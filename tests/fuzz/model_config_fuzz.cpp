#include "tests/fuzz/model_config_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  return hydra::fuzz::fuzz_model_config(std::as_bytes(std::span(data, size)));
}
