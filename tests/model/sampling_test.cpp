#include "hydrahead/model/sampling.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace hydra::model {
namespace {

constexpr std::array<float, 4> logits{1.0f, 3.0f, 2.0f, 3.0f};

TEST(Sampling, TopKAndTiesByTokenId) {
  EXPECT_EQ(sample_token(logits, {.temperature = 1.0, .top_k = 1}, 0.99), 1);
  EXPECT_EQ(sample_token(logits, {.temperature = 1.0, .top_k = 2}, 0.25), 1);
  EXPECT_EQ(sample_token(logits, {.temperature = 1.0, .top_k = 2}, 0.75), 3);
}

TEST(Sampling, TopPKeepsTheSmallestSet) {
  // Probabilities of 1, 3, 2, 0: about 0.395, 0.395, 0.145, 0.053.
  for (int i = 0; i < 100; ++i) {
    const int token = sample_token(logits, {.temperature = 1.0, .top_p = 0.7}, i / 100.0);
    EXPECT_TRUE(token == 1 || token == 3);
  }
  EXPECT_EQ(sample_token(logits, {.temperature = 1.0, .top_p = 0.9}, 0.999), 2);
}

TEST(Sampling, FrequenciesFollowTheDistribution) {
  const std::array<float, 2> pair{0.0f, std::log(3.0f)};
  int ones = 0;
  for (int i = 0; i < 1000; ++i) {
    ones += sample_token(pair, {.temperature = 1.0}, i / 1000.0);
  }
  EXPECT_NEAR(ones, 750, 1);
  EXPECT_EQ(sample_token(pair, {.temperature = 1e-3}, 0.999), 1);
}

}  // namespace
}  // namespace hydra::model
