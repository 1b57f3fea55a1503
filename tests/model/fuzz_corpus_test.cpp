// The fuzz target of this module over its seed corpus.

#include "tests/support/fuzz_corpus.hpp"

#include <gtest/gtest.h>

#include "tests/fuzz/model_config_fuzz.hpp"

namespace hydra::model {
namespace {

TEST(ModelFuzzCorpus, ModelConfig) {
  EXPECT_GE(test::replay_corpus("model_config", fuzz::fuzz_model_config), 6);
  set_log_level(LogLevel::info);
}

}  // namespace
}  // namespace hydra::model
