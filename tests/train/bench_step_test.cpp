// bench step on a tiny model: the figures of the record agree with each other.

#include "hydrahead/train/bench_step.hpp"

#include <gtest/gtest.h>

#include "tests/train/support_tiny.hpp"

namespace hydra::train {
namespace {

Json bench(const std::string& stage, std::int64_t steps) {
  BenchOptions options;
  options.stage = stage;
  options.context = 24;
  options.batch = 2;
  options.steps = steps;
  return bench_step(test::tiny_config(true), options, at::kCPU, at::kFloat, *dist::make_solo_communicator());
}

TEST(BenchStep, MedianOfTwoStepsIsTheirMean) {
  for (const char* stage : {"align", "prefill"}) {
    const Json record = bench(stage, 2);
    const double least = record["step_ms_least"], most = record["step_ms_most"], median = record["step_ms"];
    EXPECT_DOUBLE_EQ(median, (least + most) / 2) << stage;
    EXPECT_NEAR(record["tokens_per_second"].get<double>(), 48e3 / median, 1e-6 * 48e3 / median) << stage;
  }
}

TEST(BenchStep, MedianOfThreeStepsIsOneOfThem) {
  const Json record = bench("long_context", 3);
  EXPECT_LE(record["step_ms_least"], record["step_ms"]);
  EXPECT_LE(record["step_ms"], record["step_ms_most"]);
  EXPECT_NE(bench_text(record).find("median"), std::string::npos);
  EXPECT_THROW(bench("sideways", 1), UserError);
}

}  // namespace
}  // namespace hydra::train
