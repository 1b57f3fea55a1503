// The kernels that join the branches' heads against the ATen path in fp64 on the same (rounded) arguments.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/ops/head_output_cases.hpp"
#include "tests/support/cuda.hpp"

namespace hydra {
namespace {

using test::CaseGate;
using test::HeadOutputCase;
using test::Tensors;

#if HYDRA_CUDA
void expect_kernel_equals_aten(const HeadOutputCase& c, at::ScalarType type) {
  SCOPED_TRACE(::testing::Message() << c.name() << ", " << type);
  const Tensors arguments = test::head_output_arguments(c);
  const auto expected = test::run_fuse_heads(&ops::fuse_heads_aten, c,
                                             test::moved(c, arguments, at::kCUDA, at::kDouble, at::kDouble, type));
  const Tensors on_gpu = test::moved(c, arguments, at::kCUDA, type, at::kFloat, type);
  const auto actual = test::run_fuse_heads(&ops::fuse_heads_cuda, c, on_gpu);
  EXPECT_EQ(actual.outputs[0].scalar_type(), type);
  const double tolerance = type == at::kFloat ? 1e-5 : 5e-3;
  EXPECT_TRUE(test::close(actual.outputs[0], expected.outputs[0], tolerance));
  for (std::size_t i = 0; i < 5; ++i) {
    if (expected.gradients[i].defined()) {
      EXPECT_TRUE(test::close(actual.gradients[i], expected.gradients[i], i == 4 ? 1e-5 : tolerance))
          << "gradient of argument " << i;
    }
  }
  test::expect_identical(test::run_fuse_heads(&ops::fuse_heads_cuda, c, on_gpu), actual);
}

TEST(HeadOutputKernel, EveryOptionAndHeadSize) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(1);
  for (const std::int64_t size : {16, 64, 80, 128, 256}) {
    for (HeadOutputCase c : test::head_output_options()) {
      c.size = size;
      c.rows = 37;
      expect_kernel_equals_aten(c, at::kFloat);
      expect_kernel_equals_aten(c, at::kBFloat16);
    }
  }
}

TEST(HeadOutputKernel, OneRowToManyMoreThanTheDeviceHolds) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(2);
  for (const std::int64_t rows : {1, 7, 1000, 20011}) {
    for (const std::int64_t size : {64, 128, 80}) {
      for (const CaseGate gate : {CaseGate::elementwise, CaseGate::headwise}) {
        HeadOutputCase c;
        c.rows = rows;
        c.size = size;
        c.fa_gate = gate;
        expect_kernel_equals_aten(c, at::kFloat);
        expect_kernel_equals_aten(c, at::kBFloat16);
      }
    }
  }
}

TEST(HeadOutputKernel, ManyHeads) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(3);
  for (const std::int64_t heads : {1, 13, 40, 256}) {
    HeadOutputCase c;
    c.fa.clear();
    c.gdn.clear();
    for (std::int64_t h = 0; h < heads; ++h) {
      (h % 3 == 0 ? c.fa : c.gdn).push_back(h);
    }
    c.size = 64;
    c.rows = 50;
    expect_kernel_equals_aten(c, at::kFloat);
  }
}

TEST(HeadOutputKernel, MoreHeadsThanItTakesGoTheAtenWay) {
  HYDRA_NEEDS_CUDA();
  HeadOutputCase c;
  c.fa = {};
  c.gdn.resize(257);
  std::iota(c.gdn.begin(), c.gdn.end(), 0);
  const Tensors x = test::moved(c, test::head_output_arguments(c), at::kCUDA, at::kFloat, at::kFloat, at::kFloat);
  test::expect_identical(test::run_fuse_heads(&ops::fuse_heads, c, x),
                         test::run_fuse_heads(&ops::fuse_heads_aten, c, x));
}
#endif

}  // namespace
}  // namespace hydra
