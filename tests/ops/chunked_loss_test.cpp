// Chunked losses against the whole-logits formula, and recomputation against the plain graph.
#include "hydrahead/ops/chunked_loss.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "hydrahead/base/error.hpp"
#include "tests/support/compare.hpp"

namespace hydra {
namespace {

using test::close;

struct LossCase {
  at::Tensor hidden, head, teacher_hidden, teacher_head, labels;
};

LossCase loss_case(at::ScalarType type = at::kDouble) {
  at::manual_seed(5);
  constexpr std::int64_t kRows = 37, kWidth = 8, kTeacherWidth = 12, kVocabulary = 50;
  const auto options = at::TensorOptions(type);
  return {at::randn({kRows, kWidth}, options).requires_grad_(true),
          at::randn({kVocabulary, kWidth}, options).requires_grad_(true), at::randn({kRows, kTeacherWidth}, options),
          at::randn({kVocabulary, kTeacherWidth}, options), at::randint(0, 40, {kRows}, at::kLong)};
}

ops::LossSums run(const LossCase& c, const ops::LossOptions& options, double divisor = 10.0) {
  return ops::chunked_loss(c.hidden, c.head, c.teacher_hidden, c.teacher_head, c.labels, divisor, options);
}

TEST(ChunkedLoss, EqualsTheWholeLogitsFormula) {
  for (const double tau : {1.0, 2.5}) {
    for (const std::int64_t limit : {0, 45}) {
      auto a = loss_case();
      auto b = loss_case();
      const ops::LossOptions options{
          .kl_weight = 0.7, .ce_weight = 0.3, .temperature = tau, .vocab_limit = limit, .chunk_rows = 10};
      const auto sums = run(a, options);
      const auto columns = limit == 0 ? 50 : limit;
      const auto z = at::matmul(b.hidden, b.head.t()).narrow(1, 0, columns);
      const auto zt = at::matmul(b.teacher_hidden, b.teacher_head.t()).narrow(1, 0, columns);
      const auto ce = at::cross_entropy_loss(z, b.labels, {}, at::Reduction::Sum);
      const auto log_t = (zt / tau).log_softmax(1);
      const auto kl = (log_t.exp() * (log_t - (z / tau).log_softmax(1))).sum() * tau * tau;
      const auto total = (0.7 * kl + 0.3 * ce) / 10.0;
      EXPECT_TRUE(close(sums.kl, kl, 1e-12));
      EXPECT_TRUE(close(sums.ce, ce, 1e-12));
      EXPECT_TRUE(close(sums.total, total, 1e-12));
      torch::autograd::backward({sums.total * 2}, {});
      torch::autograd::backward({total * 2}, {});
      EXPECT_TRUE(close(a.hidden.grad(), b.hidden.grad(), 1e-12));
      EXPECT_TRUE(close(a.head.grad(), b.head.grad(), 1e-12));
    }
  }
}

TEST(ChunkedLoss, DoesNotDependOnTheChunk) {
  const auto result = [](std::int64_t rows) {
    auto c = loss_case(at::kFloat);
    const auto sums = run(c, {.kl_weight = 1.0, .ce_weight = 0.1, .chunk_rows = rows});
    torch::autograd::backward({sums.total}, {});
    return std::vector<at::Tensor>{sums.total.detach(), sums.kl, sums.ce, c.hidden.grad(), c.head.grad()};
  };
  const auto whole = result(1000);
  for (const std::int64_t rows : {1, 7, 37}) {
    const auto chunked = result(rows);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(close(chunked[i], whole[i], 1e-5)) << rows << " rows, item " << i;
    }
  }
}

TEST(ChunkedLoss, AnIdenticalStudentHasNoDivergence) {
  auto c = loss_case(at::kFloat);
  c.teacher_hidden = c.hidden.detach();
  c.teacher_head = c.head.detach();
  const auto sums = run(c, {.kl_weight = 1.0, .ce_weight = 0.0, .chunk_rows = 16}, 1.0);
  EXPECT_EQ(sums.kl.item<double>(), 0.0);
  torch::autograd::backward({sums.total}, {});
  EXPECT_LE(c.hidden.grad().abs().max().item<double>(), 1e-6);
  EXPECT_LE(c.head.grad().abs().max().item<double>(), 1e-6);
}

TEST(ChunkedLoss, CrossEntropyNeedsNoTeacher) {
  auto c = loss_case();
  c.teacher_hidden = at::Tensor();
  c.teacher_head = at::Tensor();
  const auto sums = run(c, {.chunk_rows = 10});
  EXPECT_EQ(sums.kl.item<double>(), 0.0);
  EXPECT_NEAR(sums.total.item<double>(), sums.ce.item<double>() / 10, 1e-12);
  EXPECT_THROW(run(c, {.kl_weight = 1.0}), Error);
}

TEST(ChunkedLoss, NoRowsGiveZeros) {
  auto c = loss_case();
  c.hidden = at::zeros({0, 8}, at::kDouble).requires_grad_(true);
  c.teacher_hidden = at::zeros({0, 12}, at::kDouble);
  c.labels = at::zeros({0}, at::kLong);
  const auto sums = run(c, {.kl_weight = 1.0, .ce_weight = 1.0});
  EXPECT_EQ(sums.total.item<double>(), 0.0);
  torch::autograd::backward({sums.total}, {});
  EXPECT_EQ(c.head.grad().abs().max().item<double>(), 0.0);
}

TEST(ChunkedLoss, AFrozenHeadGetsNoGradient) {
  auto c = loss_case();
  c.head = c.head.detach();
  const auto sums = run(c, {.kl_weight = 1.0, .ce_weight = 1.0});
  torch::autograd::backward({sums.total}, {});
  EXPECT_FALSE(c.head.grad().defined());
  EXPECT_TRUE(c.hidden.grad().defined());
}

TEST(ChunkedLoss, TokenLogprobs) {
  const auto c = loss_case();
  const auto expected = at::matmul(c.hidden, c.head.t()).log_softmax(1).gather(1, c.labels.unsqueeze(1)).squeeze(1);
  EXPECT_TRUE(close(ops::token_logprobs(c.hidden, c.head, c.labels, 10), expected, 1e-12));
}

}  // namespace
}  // namespace hydra
