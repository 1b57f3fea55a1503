#include "tests/fuzz/config_yaml_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  return hydra::fuzz::fuzz_config_yaml(std::as_bytes(std::span(data, size)));
}
