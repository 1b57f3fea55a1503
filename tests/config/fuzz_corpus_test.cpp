// The fuzz target of config files over its seed corpus.

#include "tests/support/fuzz_corpus.hpp"

#include <gtest/gtest.h>

#include "tests/fuzz/config_yaml_fuzz.hpp"

namespace {

TEST(ConfigYamlFuzzCorpus, Replay) {
  EXPECT_GE(hydra::test::replay_corpus("config_yaml", hydra::fuzz::fuzz_config_yaml), 10);
}

}  // namespace
