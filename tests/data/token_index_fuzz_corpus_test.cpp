// The fuzz target of .idx files over its seed corpus.

#include <gtest/gtest.h>

#include "tests/fuzz/token_index_fuzz.hpp"
#include "tests/support/fuzz_corpus.hpp"

namespace hydra::data {
namespace {

TEST(TokenIndexFuzzCorpus, Replay) { EXPECT_GE(test::replay_corpus("token_index", fuzz::fuzz_token_index), 6); }

}  // namespace
}  // namespace hydra::data
