// The fuzz targets of this module over their seed corpora.

#include "tests/support/fuzz_corpus.hpp"

#include <gtest/gtest.h>

#include "tests/fuzz/safetensors_header_fuzz.hpp"
#include "tests/fuzz/safetensors_index_fuzz.hpp"

namespace hydra::io {
namespace {

TEST(IoFuzzCorpus, SafetensorsHeader) {
  EXPECT_GE(test::replay_corpus("safetensors_header", fuzz::fuzz_safetensors_header), 10);
}

TEST(IoFuzzCorpus, SafetensorsIndex) {
  EXPECT_GE(test::replay_corpus("safetensors_index", fuzz::fuzz_safetensors_index), 6);
}

}  // namespace
}  // namespace hydra::io
