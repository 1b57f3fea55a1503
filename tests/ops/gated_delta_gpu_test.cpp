// The gated delta rule on CUDA against fp64 on the CPU: fp32 to 1e-5; bf16 inputs to the limits of kernels.md
// section 7.
#include <gtest/gtest.h>

#include "tests/ops/gated_delta_cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/cuda.hpp"

namespace hydra {
namespace {

using test::close;

void expect_close_to_cpu(const std::vector<std::int64_t>& lengths, std::int64_t size, at::ScalarType type,
                         double tolerance, double decay_tolerance) {
  auto c = test::delta_case(lengths, 2, 4, size, size, 1);
  auto on_gpu = c;
  on_gpu.sequences = ops::make_sequences(lengths, at::kCUDA);
  for (std::size_t i = 0; i < c.x.size(); ++i) {
    const auto stored = i < 3 ? type : at::kFloat;  // gates and states are fp32
    on_gpu.x[i] = c.x[i].to(at::kCUDA, stored);
    c.x[i] = on_gpu.x[i].to(at::kCPU, at::kDouble);
  }
  const auto d_output = at::randn(c.x[2].sizes(), at::kDouble).to(type).to(at::kDouble);
  const auto d_state = at::randn(c.x[5].sizes(), at::kDouble).to(at::kFloat).to(at::kDouble);
  const auto expected = test::run_delta(test::chunked_rule(), c, d_output, d_state);
  const auto actual =
      test::run_delta(test::chunked_rule(), on_gpu, d_output.to(at::kCUDA, type), d_state.to(at::kCUDA, at::kFloat));
  EXPECT_TRUE(close(actual.output, expected.output, tolerance));
  EXPECT_TRUE(close(actual.final_state, expected.final_state, tolerance));
  for (std::size_t i = 0; i < expected.gradient.size(); ++i) {
    EXPECT_TRUE(close(actual.gradient[i], expected.gradient[i], i == 3 ? decay_tolerance : tolerance))
        << "d" << test::kDeltaNames[i];
  }
}

TEST(GatedDeltaGpu, SinglePrecision) {
  HYDRA_NEEDS_CUDA();
  expect_close_to_cpu({256, 256}, 64, at::kFloat, 1e-5, 1e-5);
  expect_close_to_cpu({1, 300, 64, 65, 1021}, 128, at::kFloat, 1e-5, 1e-5);
}

TEST(GatedDeltaGpu, Bf16Inputs) {
  HYDRA_NEEDS_CUDA();
  expect_close_to_cpu({256, 256}, 64, at::kBFloat16, 5e-3, 1e-2);
  expect_close_to_cpu({1, 300, 64, 65, 1021}, 128, at::kBFloat16, 5e-3, 1e-2);
}

TEST(GatedDeltaGpu, StepsEqualOnePass) {
  HYDRA_NEEDS_CUDA();
  const auto c = test::delta_case({100}, 2, 2, 64, 64, 2);
  const auto whole = test::chunked_rule()(c);
  at::Tensor state = c.x[5].to(at::kCUDA, at::kFloat);
  std::vector<at::Tensor> outputs;
  for (std::int64_t begin = 0; begin < 100; begin += 20) {
    for (const auto& [first, length] : {std::pair{begin, std::int64_t{19}}, {begin + 19, std::int64_t{1}}}) {
      const auto part = [&](std::size_t i) { return c.x[i].narrow(0, first, length).to(at::kCUDA, at::kFloat); };
      const auto y = ops::gated_delta_step(part(0), part(1), part(2), part(3), part(4), c.scale,
                                           ops::make_sequences({length}, at::kCUDA, {first}), state);
      outputs.push_back(y.output);
      state = y.final_state;
    }
  }
  EXPECT_TRUE(close(at::cat(outputs), whole.output, 1e-5));
  EXPECT_TRUE(close(state, whole.final_state, 1e-5));
}

}  // namespace
}  // namespace hydra
