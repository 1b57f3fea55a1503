// The kernel for queries and keys of softmax attention against the ATen path in fp64 on the same (rounded) arguments.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "src/ops/norm_rotate.hpp"
#include "tests/support/cuda.hpp"
#include "tests/support/gradients.hpp"

namespace hydra {
namespace {

#if HYDRA_CUDA
using test::Tensors;

struct Case {
  std::int64_t rows, heads, size;
  bool rope;
  std::int64_t spare = 0;  // columns of the projection after the heads
};

test::Evaluation run(decltype(&ops::norm_rotate_aten) path, const Tensors& arguments, const at::Tensor& angle) {
  return test::evaluate(
      [&](const Tensors& x) {
        const at::Tensor cos = angle.defined() ? angle.cos() : angle, sin = angle.defined() ? angle.sin() : angle;
        return Tensors{path(x[0], x[1], cos, sin, 1e-6)};
      },
      arguments);
}

void expect_kernel_equals_aten(const Case& c, at::ScalarType type) {
  SCOPED_TRACE(::testing::Message() << "N " << c.rows << ", H " << c.heads << ", d " << c.size << ", rope " << c.rope
                                    << ", spare " << c.spare << ", " << type);
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kFloat);
  const at::Tensor all = (at::randn({c.rows, c.heads * c.size + c.spare}, options) * 3).to(type);
  const at::Tensor x = all.narrow(1, 0, c.heads * c.size).view({c.rows, c.heads, c.size});
  const at::Tensor weight = at::randn({c.size}, options) * 0.3 + 1;
  const at::Tensor angle = c.rope ? at::randn({c.rows, c.size / 2}, options) * 5 : at::Tensor();
  const auto expected = run(&ops::norm_rotate_aten, {x.to(at::kDouble), weight.to(at::kDouble)}, angle);
  const auto actual = run(&ops::norm_rotate_cuda, {x, weight}, angle);
  EXPECT_EQ(actual.outputs[0].scalar_type(), type);
  const double tolerance = type == at::kFloat ? 1e-5 : 5e-3;
  EXPECT_TRUE(test::close(actual.outputs[0], expected.outputs[0], tolerance));
  EXPECT_TRUE(test::close(actual.gradients[0], expected.gradients[0], tolerance));
  EXPECT_TRUE(test::close(actual.gradients[1], expected.gradients[1], 1e-5));
  test::expect_identical(run(&ops::norm_rotate_cuda, {x, weight}, angle), actual);
}

TEST(NormRotateKernel, EveryHeadSizeWithAndWithoutRotation) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(1);
  for (const std::int64_t size : {2, 16, 64, 80, 128, 256}) {
    for (const bool rope : {true, false}) {
      for (const std::int64_t rows : {1, 37, 5003}) {
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
          expect_kernel_equals_aten({rows, 5, size, rope}, type);
        }
      }
    }
  }
}

TEST(NormRotateKernel, SlicesAndManyRows) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    expect_kernel_equals_aten({100, 4, 128, true, 64}, type);
    expect_kernel_equals_aten({100, 4, 128, true, 3}, type);  // rows that are not aligned
    expect_kernel_equals_aten({100003, 16, 128, true}, type);
  }
}

TEST(NormRotateKernel, AFrozenWeightGetsNoGradient) {
  HYDRA_NEEDS_CUDA();
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kFloat);
  const auto x = at::randn({7, 2, 64}, options).requires_grad_(true);
  const auto weight = at::ones({64}, options);
  torch::autograd::backward({ops::norm_rotate_cuda(x, weight, {}, {}, 1e-6).sum()}, {});
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
}
#endif

}  // namespace
}  // namespace hydra
