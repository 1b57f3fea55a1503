// The fused heads against the formulas of method.md 4.3, head by head, values and gradients, fp64.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "hydrahead/base/error.hpp"
#include "tests/ops/head_output_cases.hpp"

namespace hydra {
namespace {

using test::CaseAmplitude;
using test::CaseGate;
using test::HeadOutputCase;
using test::Tensors;

at::Tensor gate_of(CaseGate kind, const at::Tensor& z) {
  const at::Tensor logistic = 1 / ((-z).exp() + 1);
  return kind == CaseGate::silu ? z * logistic : logistic;
}

test::Evaluation formulas(const HeadOutputCase& c, const Tensors& arguments) {
  return test::evaluate(
      [&](const Tensors& x) {
        Tensors heads(static_cast<std::size_t>(c.heads()));
        const auto place = [&](std::size_t at, const std::vector<std::int64_t>& places, CaseGate kind) {
          for (std::size_t i = 0; i < places.size(); ++i) {
            const auto packed = static_cast<std::int64_t>(i);
            const std::int64_t h = places[i];
            const at::Tensor o = x[at].select(1, packed);
            const bool gated = kind != CaseGate::none;
            const at::Tensor gate = gated ? gate_of(kind, x[at + 1].select(1, packed)) : at::ones({1}, at::kDouble);
            at::Tensor& y = heads[static_cast<std::size_t>(h)];
            if (c.amplitude == CaseAmplitude::none) {
              y = gated ? 2 * o * gate : o;
              continue;
            }
            const at::Tensor v = c.gate_first ? o * gate : o;
            y = v / (v.square().mean(-1, true) + 1e-2).sqrt();
            y = c.gate_first ? y : y * gate;
            y = y * (c.amplitude == CaseAmplitude::shared ? x[4][h] : x[4].select(1, h).unsqueeze(1));
          }
        };
        place(0, c.fa, c.fa_gate);
        place(2, c.gdn, c.gdn_gate);
        return Tensors{at::stack(heads, 1)};
      },
      arguments);
}

TEST(HeadOutput, FollowsTheFormulasUnderEveryOption) {
  at::manual_seed(1);
  for (const HeadOutputCase& c : test::head_output_options()) {
    SCOPED_TRACE(c.name());
    const Tensors x = test::moved(c, test::head_output_arguments(c), at::kCPU, at::kDouble, at::kDouble, at::kDouble);
    test::expect_close(test::run_fuse_heads(&ops::fuse_heads, c, x), formulas(c, x), 1e-12, 1e-11);
  }
}

TEST(HeadOutput, KeepsTheHeadsType) {
  const at::NoGradGuard no_grad;
  const HeadOutputCase c;
  const Tensors x = test::moved(c, test::head_output_arguments(c), at::kCPU, at::kBFloat16, at::kFloat, at::kBFloat16);
  const auto y = ops::fuse_heads({{x[0], x[1]}, c.fa}, {{x[2], x[3]}, c.gdn}, x[4], {});
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(y.sizes(), (std::vector<std::int64_t>{7, 5, 16}));
}

TEST(HeadOutput, MismatchedArgumentsAreRefused) {
  const HeadOutputCase c;
  const Tensors x = test::head_output_arguments(c);
  const std::vector<std::int64_t> too_many{0, 2, 3, 5};
  EXPECT_THROW(ops::fuse_heads({{x[0], x[1]}, c.fa}, {{x[2], x[3]}, too_many}, x[4], {}), Error);
  EXPECT_THROW(ops::fuse_heads({{x[0], x[3]}, c.fa}, {{x[2], x[3]}, c.gdn}, x[4], {}), Error);
  EXPECT_THROW(ops::fuse_heads({{x[0], x[1]}, c.fa}, {{x[2], x[3]}, c.gdn}, x[4].narrow(0, 0, 4), {}), Error);
}

TEST(HeadOutput, SelectedHeadsMayRepeat) {
  const at::Tensor x = at::arange(12, at::kDouble).view({2, 3, 2});
  EXPECT_TRUE(
      test::identical(ops::select_heads(x, {2, 0, 0}), at::stack({x.select(1, 2), x.select(1, 0), x.select(1, 0)}, 1)));
  EXPECT_TRUE(ops::select_heads(x, {0, 1, 2}).is_same(x));
}

}  // namespace
}  // namespace hydra
