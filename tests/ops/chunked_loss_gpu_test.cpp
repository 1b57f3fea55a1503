// The fused loss kernel against the ATen path, and chunked_loss in bf16 with an fp32 master head against fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "hydrahead/ops/chunked_loss.hpp"
#include "src/ops/distill_loss.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/cuda.hpp"

namespace hydra {
namespace {

using test::close;

#if HYDRA_CUDA
TEST(LossKernel, EqualsTheAtenPath) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(1);
  for (const std::int64_t columns : {1, 50, 4096, 151936, 151669}) {
    for (const double tau : {1.0, 2.0}) {
      for (const bool distill : {true, false}) {
        SCOPED_TRACE(::testing::Message() << columns << " columns, tau " << tau << ", teacher " << distill);
        constexpr std::int64_t kRows = 150;  // more rows than multiprocessors
        const auto z = at::randn({kRows, columns}, at::kDouble).mul(4).to(at::kCUDA, at::kFloat);
        const auto zt =
            distill ? at::randn({kRows, columns}, at::kDouble).mul(4).to(at::kCUDA, at::kFloat) : at::Tensor();
        const auto labels = at::randint(columns, {kRows}, at::kLong).to(at::kCUDA);
        const ops::LossOptions options{.kl_weight = distill ? 0.7 : 0.0, .ce_weight = 0.3, .temperature = tau};
        const auto wide = [](const at::Tensor& x) { return x.defined() ? x.to(at::kDouble) : x; };
        const auto expected = ops::row_losses(wide(z), wide(zt), labels, 10.0, options, true, at::kDouble);
        const auto values = ops::row_losses_cuda(z, zt, labels, 10.0, options, false, at::kFloat);
        EXPECT_FALSE(values.gradient.defined());
        EXPECT_TRUE(close(values.ce, expected.ce, 1e-5));
        const auto narrow = ops::row_losses_cuda(z, zt, labels, 10.0, options, true, at::kBFloat16);
        EXPECT_TRUE(close(narrow.gradient, expected.gradient, columns == 1 ? 1.0 : 4e-3));
        const auto again = ops::row_losses_cuda(z, zt, labels, 10.0, options, true, at::kBFloat16);
        EXPECT_TRUE(test::identical(again.gradient, narrow.gradient));
        // The gradient written over the student's logits.
        const auto over = ops::row_losses_cuda(z, zt, labels, 10.0, options, true, at::kFloat);
        EXPECT_EQ(over.gradient.const_data_ptr(), z.const_data_ptr());
        if (columns > 1) {
          EXPECT_TRUE(close(over.gradient, expected.gradient, 1e-5));
          if (distill) {
            EXPECT_TRUE(close(over.kl, expected.kl, 1e-5));
          }
        } else {
          EXPECT_LE(over.gradient.abs().max().item<double>(), 1e-6);
        }
      }
    }
  }
}

TEST(LossKernel, EqualLogitsHaveExactlyNoDivergence) {
  HYDRA_NEEDS_CUDA();
  const auto z = at::randn({64, 4096}, at::TensorOptions(at::kCUDA)) * 5;
  const auto labels = at::zeros({64}, at::TensorOptions(at::kCUDA).dtype(at::kLong));
  for (const double tau : {1.0, 2.0}) {
    const ops::LossOptions options{.kl_weight = 1.0, .ce_weight = 0.0, .temperature = tau};
    const auto result = ops::row_losses_cuda(z.clone(), z, labels, 1.0, options, true, at::kFloat);
    EXPECT_EQ(result.kl.abs().max().item<double>(), 0.0);
    EXPECT_LE(result.gradient.abs().max().item<double>(), 1e-6);
  }
}

TEST(LossKernel, MaskedColumnsAndNanStayWhereTheyAre) {
  HYDRA_NEEDS_CUDA();
  const auto options = at::TensorOptions(at::kCUDA);
  auto z = at::randn({3, 64}, options);
  auto zt = at::randn({3, 64}, options);
  z.narrow(1, 60, 4).fill_(-std::numeric_limits<double>::infinity());
  zt.narrow(1, 60, 4).fill_(-std::numeric_limits<double>::infinity());
  z[1][5] = std::numeric_limits<double>::quiet_NaN();
  const auto labels = at::zeros({3}, options.dtype(at::kLong));
  const auto result =
      ops::row_losses_cuda(z, zt, labels, 1.0, {.kl_weight = 1.0, .ce_weight = 1.0}, true, at::kBFloat16);
  const auto second_row = at::arange(3).eq(1);
  EXPECT_TRUE(result.kl.isnan().cpu().equal(second_row));
  EXPECT_TRUE(result.ce.isnan().cpu().equal(second_row));
  EXPECT_FALSE(result.gradient[0].isnan().any().item<bool>());
  EXPECT_EQ(result.gradient[0].narrow(0, 60, 4).abs().max().item<double>(), 0.0);
}
#endif

TEST(ChunkedLossGpu, Bf16HiddenStatesAndAnFp32MasterHead) {
  HYDRA_NEEDS_CUDA();
  at::manual_seed(2);
  constexpr std::int64_t kRows = 300, kWidth = 64, kVocabulary = 1000;
  const auto hidden = at::randn({kRows, kWidth}, at::kDouble).to(at::kBFloat16);
  const auto head = (at::randn({kVocabulary, kWidth}, at::kDouble) * 0.3).to(at::kBFloat16).to(at::kFloat);
  const auto teacher_hidden = at::randn({kRows, kWidth}, at::kDouble).to(at::kBFloat16);
  const auto labels = at::randint(kVocabulary, {kRows}, at::kLong);
  const ops::LossOptions options{.kl_weight = 1.0, .ce_weight = 0.1, .chunk_rows = 128};
  const auto run = [&](at::Device device, at::ScalarType activations, at::ScalarType masters) {
    const auto h = hidden.to(device, activations).requires_grad_(true);
    const auto w = head.to(device, masters).requires_grad_(true);
    const auto sums =
        ops::chunked_loss(h, w, teacher_hidden.to(device, activations), w.detach(), labels.to(device), 100.0, options);
    torch::autograd::backward({sums.total}, {});
    return std::vector<at::Tensor>{sums.total.detach(), sums.kl, sums.ce, h.grad(), w.grad()};
  };
  const auto expected = run(at::kCPU, at::kDouble, at::kDouble);
  const auto actual = run(at::kCUDA, at::kBFloat16, at::kFloat);
  EXPECT_EQ(actual[4].scalar_type(), at::kFloat);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(close(actual[i], expected[i], i < 3 ? 1e-5 : 5e-3)) << i;
  }
}

}  // namespace
}  // namespace hydra
