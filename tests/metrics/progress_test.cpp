#include "hydrahead/metrics/progress.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace hydra::metrics {
namespace {

TEST(Progress, PercentRateAndTimeLeft) {
  std::ostringstream out;
  double now = 100.0;
  Progress progress(
      {.title = "align", .unit = "tokens", .total = 10000, .done = 2000, .out = &out, .clock = [&] { return now; }});
  now = 104.0;
  progress.update(4000, "loss 0.5");
  // 2000 tokens in 4 s; what an earlier run did counts in the percentage only.
  EXPECT_EQ(out.str(), "align 4K/10K tokens 40%, 500 tokens/s, 12 s left, loss 0.5\x1b[K\r");
  now = 104.05;
  progress.update(4100, "loss 0.4");  // too early for another line
  EXPECT_EQ(out.str().find("0.4"), std::string::npos);
  now = 116.0;
  progress.update(10000, "loss 0.1");
  out.str("");
  progress.finish();
  EXPECT_EQ(out.str(), "align 10K/10K tokens 100%, 500 tokens/s, took 16 s, loss 0.1\x1b[K\n");
}

TEST(Progress, Texts) {
  EXPECT_EQ(duration_text(12.4), "12 s");
  EXPECT_EQ(duration_text(187), "3 min 07 s");
  EXPECT_EQ(duration_text(7500), "2 h 05 min");
  EXPECT_EQ(count_text(950), "950");
  EXPECT_EQ(count_text(1250), "1.25K");
  EXPECT_EQ(count_text(999.7), "1K");
  EXPECT_EQ(count_text(3.1e6), "3.1M");
}

}  // namespace
}  // namespace hydra::metrics
