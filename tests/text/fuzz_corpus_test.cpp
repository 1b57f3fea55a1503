// The fuzz targets of this module over their seed corpora.

#include "tests/support/fuzz_corpus.hpp"

#include <gtest/gtest.h>

#include "tests/fuzz/bpe_fuzz.hpp"
#include "tests/fuzz/tokenizer_json_fuzz.hpp"

namespace hydra::text {
namespace {

TEST(TextFuzzCorpus, TokenizerJson) { EXPECT_GE(test::replay_corpus("tokenizer_json", fuzz::fuzz_tokenizer_json), 8); }

TEST(TextFuzzCorpus, Bpe) { EXPECT_GE(test::replay_corpus("bpe", fuzz::fuzz_bpe), 6); }

}  // namespace
}  // namespace hydra::text
