#include "hydrahead/metrics/throughput.hpp"

#include <gtest/gtest.h>

namespace hydra::metrics {
namespace {

// Qwen3-1.7B's shape, 4 of 16 heads FA in 2 KV groups of each of 28 layers: written out by hand here.
constexpr double D = 2048, I = 6144, V = 151936, d = 128, layers = 28;

FlopsShape teacher() {
  return {.attention_parameters = layers * (2 * D * 16 * d + 2 * D * 8 * d),
          .mlp_parameters = layers * 3 * D * I,
          .head_parameters = V * D,
          .fa_heads = layers * 16,
          .gdn_heads = 0,
          .head_dim = d,
          .hidden = D};
}

FlopsShape student() {
  FlopsShape shape = teacher();
  const double fa = 2 * D * 4 * d + 2 * D * 2 * d, gdn = 4 * D * 12 * d + 2 * D * 12;
  shape.attention_parameters = layers * (fa + gdn + D * 16 * d);
  shape.fa_heads = layers * 4;
  shape.gdn_heads = layers * 12;
  return shape;
}

// TFLOP/s and ms/step that were measured for these shapes with the same counting: 16,384 tokens a step.
TEST(Throughput, AgreesWithMeasuredStepsOfQwen3) {
  const double tokens = 16384;
  EXPECT_NEAR(align_flops(student(), teacher(), 512) * tokens, 208e12 * 0.444, 0.015 * 208e12 * 0.444);
  EXPECT_NEAR(align_flops(student(), teacher(), 4096) * tokens, 238e12 * 0.441, 0.015 * 238e12 * 0.441);
  EXPECT_NEAR(distill_flops(student(), teacher(), 4096) * tokens, 320e12 * 0.832, 0.015 * 320e12 * 0.832);
  EXPECT_NEAR(long_context_flops(student(), 16384) * tokens, 287e12 * 0.775, 0.015 * 287e12 * 0.775);
}

TEST(Throughput, Utilisation) {
  EXPECT_DOUBLE_EQ(model_flops_utilisation(1e9, 2000, 1e13, 1), 0.2);
  EXPECT_DOUBLE_EQ(model_flops_utilisation(1e9, 2000, 1e13, 2), 0.1);
  EXPECT_DOUBLE_EQ(model_flops_utilisation(1e9, 2000, 0, 1), 0.0);
}

}  // namespace
}  // namespace hydra::metrics
