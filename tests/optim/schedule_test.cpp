#include "hydrahead/optim/schedule.hpp"

#include <gtest/gtest.h>

namespace hydra::optim {
namespace {

LrConfig config(Schedule schedule, std::int64_t warmup) {
  return {.peak = 1e-3, .final_rate = 1e-5, .schedule = schedule, .warmup = warmup};
}

TEST(Schedule, CosineWithWarmup) {
  const LrConfig cosine = config(Schedule::cosine, 10);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 0, 110), 1e-4);                    // first tenth of the warm-up
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 9, 110), 1e-3);                    // the peak
  EXPECT_NEAR(learning_rate(cosine, 59, 110), 0.5 * (1e-3 + 1e-5), 1e-15);  // half of the cosine
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 109, 110), 1e-5);                  // the last step
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 500, 110), 1e-5);                  // stays there
  for (std::int64_t step = 10; step < 109; ++step) {
    EXPECT_GT(learning_rate(cosine, step, 110), learning_rate(cosine, step + 1, 110));
  }
}

TEST(Schedule, ConstantKeepsThePeak) {
  const LrConfig constant = config(Schedule::constant, 4);
  EXPECT_DOUBLE_EQ(learning_rate(constant, 0, 100), 2.5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(constant, 3, 100), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(constant, 99, 100), 1e-3);
}

TEST(Schedule, NoWarmupAndAStageShorterThanItsWarmup) {
  EXPECT_LT(learning_rate(config(Schedule::cosine, 0), 0, 100), 1e-3);
  EXPECT_GT(learning_rate(config(Schedule::cosine, 0), 0, 100), 0.99e-3);
  EXPECT_DOUBLE_EQ(learning_rate(config(Schedule::cosine, 50), 9, 10), 2e-4);
}

}  // namespace
}  // namespace hydra::optim
