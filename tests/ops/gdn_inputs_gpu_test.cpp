// The kernels for the delta rule's inputs against the ATen path in fp64 on the same (rounded) arguments.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "tests/ops/gdn_inputs_cases.hpp"
#include "tests/support/cuda.hpp"

namespace hydra {
namespace {

using test::GdnInputsCase;

#if HYDRA_CUDA
void expect_kernel_equals_aten(const GdnInputsCase& c, at::ScalarType type) {
  SCOPED_TRACE(::testing::Message() << c.name() << ", " << type);
  const auto arguments = test::gdn_inputs_arguments(c);
  const auto expected = test::run_gdn_inputs(&ops::gdn_inputs_aten, c,
                                             test::moved(c, arguments, at::kCUDA, at::kDouble, at::kDouble, type));
  const auto on_gpu = test::moved(c, arguments, at::kCUDA, type, at::kFloat, type);
  const auto actual = test::run_gdn_inputs(&ops::gdn_inputs_cuda, c, on_gpu);
  EXPECT_EQ(actual.outputs[0].scalar_type(), type);
  EXPECT_EQ(actual.gradients[0].scalar_type(), type);
  const bool fp32 = type == at::kFloat;
  for (const std::size_t i : {0, 1}) {  // directions and the gradients of projections have the projections' type
    EXPECT_TRUE(test::close(actual.outputs[i], expected.outputs[i], fp32 ? 1e-5 : 5e-3)) << "output " << i;
  }
  for (const std::size_t i : {2, 3}) {
    EXPECT_TRUE(test::close(actual.outputs[i], expected.outputs[i], 1e-5)) << "output " << i;
  }
  for (std::size_t i = 0; i < actual.gradients.size(); ++i) {
    if (expected.gradients[i].defined()) {
      EXPECT_TRUE(test::close(actual.gradients[i], expected.gradients[i], fp32 || i > 3 ? 1e-5 : 5e-3))
          << "gradient of argument " << i;
    }
  }
  test::expect_identical(test::run_gdn_inputs(&ops::gdn_inputs_cuda, c, on_gpu), actual);
}

TEST(GdnInputsKernel, EveryOptionAndHeadSize) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(1);
  for (const std::int64_t size : {16, 64, 80, 128, 256}) {
    for (GdnInputsCase c : test::gdn_inputs_options()) {
      c.size = size;
      c.rows = 37;
      expect_kernel_equals_aten(c, at::kFloat);
      expect_kernel_equals_aten(c, at::kBFloat16);
    }
  }
}

TEST(GdnInputsKernel, OneRowToManyMoreThanTheDeviceHolds) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(2);
  for (const std::int64_t rows : {1, 7, 1000, 20011}) {
    for (const std::int64_t size : {64, 128, 80}) {
      GdnInputsCase c;
      c.rows = rows;
      c.size = size;
      c.heads = 6;
      c.key_heads = 2;
      expect_kernel_equals_aten(c, at::kFloat);
      expect_kernel_equals_aten(c, at::kBFloat16);
    }
  }
}

TEST(GdnInputsKernel, HeadCountsBeyondABlock) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(3);
  for (const std::int64_t heads : {1, 13, 40, 300}) {
    GdnInputsCase c;
    c.heads = c.key_heads = heads;
    c.size = 64;
    c.rows = 50;
    expect_kernel_equals_aten(c, at::kFloat);
  }
}

TEST(GdnInputsKernel, UnalignedSlicesAndStoredParameters) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(4);
  GdnInputsCase c;
  c.size = 128;
  c.rows = 20;
  auto arguments = test::moved(c, test::gdn_inputs_arguments(c), at::kCUDA, at::kFloat, at::kFloat, at::kBFloat16);
  const auto expected = test::run_gdn_inputs(&ops::gdn_inputs_cuda, c, arguments);
  for (const std::size_t i : {0, 1}) {  // two bytes past a multiple of 16
    const at::Tensor x = arguments.x[i].to(at::kBFloat16);
    const at::Tensor buffer = at::empty({x.numel() + 1}, x.options());
    arguments.x[i] = buffer.narrow(0, 1, x.numel()).view(x.sizes()).copy_(x);
  }
  for (const std::size_t i : {2, 3}) {
    arguments.x[i] = arguments.x[i].to(at::kBFloat16);
  }
  for (const std::size_t i : {4, 5, 8}) {
    arguments.x[i] = arguments.x[i].to(at::kBFloat16);
  }
  const auto actual = test::run_gdn_inputs(&ops::gdn_inputs_cuda, c, arguments);
  test::expect_close(actual, expected, 2e-2, 3e-2);
  EXPECT_EQ(actual.gradients[4].scalar_type(), at::kBFloat16);
  EXPECT_EQ(actual.gradients[6].scalar_type(), at::kFloat);
}

TEST(GdnInputsKernel, FrozenParametersAndNoGradient) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(5);
  GdnInputsCase c;
  c.size = 64;
  const auto arguments = test::moved(c, test::gdn_inputs_arguments(c), at::kCUDA, at::kFloat, at::kFloat, at::kFloat);
  const auto& x = arguments.x;
  const auto q = x[0].detach().requires_grad_(true);
  const auto y = ops::gdn_inputs(q, x[1], x[2], x[3], {x[4], x[5], x[6], x[7], x[8]}, arguments.cos, arguments.sin,
                                 c.norm_eps, c.beta_scale);
  torch::autograd::backward({y.q.sum()}, {});
  EXPECT_TRUE(q.grad().defined());
  EXPECT_FALSE(x[4].grad().defined());
  const at::NoGradGuard no_grad;
  const auto again = ops::gdn_inputs(q, x[1], x[2], x[3], {x[4], x[5], x[6], x[7], x[8]}, arguments.cos, arguments.sin,
                                     c.norm_eps, c.beta_scale);
  EXPECT_FALSE(again.q.requires_grad());
  EXPECT_TRUE(test::identical(again.q, y.q.detach()));
}
#endif

}  // namespace
}  // namespace hydra
