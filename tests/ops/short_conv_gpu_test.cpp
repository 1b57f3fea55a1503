// The short convolution's kernels against the ATen path in fp64 on the same (rounded) arguments.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <limits>

#include "src/ops/short_conv.hpp"
#include "tests/support/cuda.hpp"
#include "tests/support/gradients.hpp"

namespace hydra {
namespace {

using test::Tensors;

#if HYDRA_CUDA
struct Case {
  std::vector<std::int64_t> lengths;
  std::int64_t channels = 64;
  bool silu = false, history = false, fused = false;
};

using Path = decltype(&ops::short_conv_aten);

// Values y and new history; gradients of x and the weight.
test::Evaluation run(Path path, const Case& c, const Tensors& x, at::Device device) {
  const auto sequences = ops::make_sequences(c.lengths, device);
  at::Tensor after;
  auto result = test::evaluate(
      [&](const Tensors& leaf) {
        const auto y = path(leaf[0], leaf[1], sequences, x[2], c.silu);
        after = y.history.detach();
        return Tensors{y.output};
      },
      {x[0], x[1]});
  result.outputs.push_back(after);
  return result;
}

void expect_kernel_equals_aten(const Case& c, at::ScalarType type, at::ScalarType weight_type) {
  std::int64_t rows = 0;
  for (const std::int64_t length : c.lengths) {
    rows += length;
  }
  SCOPED_TRACE(::testing::Message() << rows << " rows, " << c.lengths.size() << " sequences, " << c.channels
                                    << " channels, silu " << c.silu << ", history " << c.history << ", fused "
                                    << c.fused << ", " << type);
  const auto random = [](at::IntArrayRef shape) { return at::randn(shape, at::kDouble); };
  const at::Tensor wide = random({rows, c.channels + (c.fused ? 24 : 0)});
  const Tensors rounded{wide.to(at::kCUDA, type), random({c.channels, 4}).to(at::kCUDA, weight_type),
                        c.history
                            ? random({static_cast<std::int64_t>(c.lengths.size()), c.channels, 3}).to(at::kCUDA, type)
                            : at::Tensor()};
  const auto in_type = [&](bool fp64) {
    Tensors x;
    for (const at::Tensor& t : rounded) {
      x.push_back(t.defined() && fp64 ? t.to(at::kDouble) : t);
    }
    x[0] = c.fused ? x[0].narrow(1, 8, c.channels) : x[0];
    return x;
  };
  const auto expected = run(&ops::short_conv_aten, c, in_type(true), at::kCUDA);
  const auto actual = run(&ops::short_conv_cuda, c, in_type(false), at::kCUDA);
  const double tolerance = type == at::kFloat ? 1e-5 : 5e-3;
  test::expect_close(actual, expected, tolerance, tolerance);
  EXPECT_TRUE(test::identical(actual.outputs[1].to(at::kDouble), expected.outputs[1]));
  EXPECT_EQ(actual.gradients[1].scalar_type(), weight_type);
  if (weight_type == at::kFloat) {
    EXPECT_TRUE(test::close(actual.gradients[1], expected.gradients[1], 1e-5));
  }
  test::expect_identical(run(&ops::short_conv_cuda, c, in_type(false), at::kCUDA), actual);
}

TEST(ShortConvKernel, EveryOption) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(1);
  const std::vector<std::int64_t> many(3000, 7);
  const std::vector<std::vector<std::int64_t>> packings{{1},          {7},       {1000}, {100003},
                                                        {5, 1, 2, 9}, {1, 1, 1}, many,   {4097, 1, 63, 64, 65, 3}};
  for (const auto& lengths : packings) {
    for (const std::int64_t channels : {64, 30, 200}) {
      for (const bool silu : {false, true}) {
        for (const bool history : {false, true}) {
          expect_kernel_equals_aten({lengths, channels, silu, history}, at::kFloat, at::kFloat);
          expect_kernel_equals_aten({lengths, channels, silu, history}, at::kBFloat16, at::kFloat);
        }
      }
    }
  }
  expect_kernel_equals_aten({{100, 50}, 128, true, false, /*fused=*/true}, at::kBFloat16, at::kBFloat16);
  expect_kernel_equals_aten({{4000, 96}, 2048, true, false}, at::kBFloat16, at::kFloat);
}

TEST(ShortConvKernel, StepsChainThroughTheHistory) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(2);
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kSequences = 5, kLength = 21, kChannels = 256;
  const auto x = at::randn({kSequences, kLength, kChannels}, at::TensorOptions(at::kCUDA)).to(at::kBFloat16);
  const auto w = at::randn({kChannels, 4}, at::TensorOptions(at::kCUDA));
  const auto whole = ops::short_conv(
      x.flatten(0, 1), w, ops::make_sequences(std::vector<std::int64_t>(kSequences, kLength), at::kCUDA), {}, true);
  at::Tensor history;
  Tensors outputs;
  std::int64_t begin = 0;
  for (const std::int64_t rows : {1, 1, 8, 2, 9}) {
    const auto step =
        ops::short_conv(x.narrow(1, begin, rows).flatten(0, 1), w,
                        ops::make_sequences(std::vector<std::int64_t>(kSequences, rows), at::kCUDA), history, true);
    outputs.push_back(step.output.view({kSequences, rows, kChannels}));
    history = step.history;
    begin += rows;
  }
  EXPECT_TRUE(test::identical(at::cat(outputs, 1).flatten(0, 1), whole.output));
  EXPECT_TRUE(test::identical(history, whole.history));
}

TEST(ShortConvKernel, NanStaysInItsSequence) {
  HYDRA_NEEDS_CUDA();
  auto x = at::randn({300, 64}, at::TensorOptions(at::kCUDA));
  x.narrow(0, 100, 100).fill_(std::numeric_limits<double>::quiet_NaN());
  x.requires_grad_(true);
  const auto w = at::randn({64, 4}, at::TensorOptions(at::kCUDA));
  const auto y = ops::short_conv(x, w, ops::make_sequences({100, 100, 100}, at::kCUDA), {}, true);
  torch::autograd::backward({y.output}, {at::ones_like(y.output)});
  for (const std::int64_t begin : {0, 200}) {
    EXPECT_TRUE(y.output.narrow(0, begin, 100).isfinite().all().item<bool>());
    EXPECT_TRUE(x.grad().narrow(0, begin, 100).isfinite().all().item<bool>());
  }
}
#endif

}  // namespace
}  // namespace hydra
