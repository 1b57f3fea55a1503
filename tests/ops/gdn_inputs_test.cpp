// The delta rule's inputs against the formulas of method.md 4.2, values and gradients, fp64.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "hydrahead/base/error.hpp"
#include "tests/ops/gdn_inputs_cases.hpp"

namespace hydra {
namespace {

using test::GdnInputsArguments;
using test::GdnInputsCase;
using test::Tensors;

at::Tensor direction(const at::Tensor& projected, const at::Tensor& weight, const GdnInputsCase& c,
                     const GdnInputsArguments& arguments) {
  at::Tensor x = projected;
  if (c.norm) {
    x = x / (x.square().mean(-1, true) + c.norm_eps).sqrt() * weight;
  }
  if (c.rope) {
    const std::int64_t half = c.size / 2;
    const at::Tensor turn = at::complex(arguments.cos.to(at::kDouble), arguments.sin.to(at::kDouble)).unsqueeze(1);
    const at::Tensor y = at::complex(x.narrow(2, 0, half).contiguous(), x.narrow(2, half, half).contiguous()) * turn;
    x = at::cat({at::real(y), at::imag(y)}, 2);
  }
  return x / (x.square().sum(-1, true) + 1e-6).sqrt();
}

test::Evaluation formulas(const GdnInputsCase& c, const GdnInputsArguments& arguments) {
  return test::evaluate(
      [&](const Tensors& x) {
        return Tensors{direction(x[0], x[4], c, arguments), direction(x[1], x[5], c, arguments),
                       -x[6].exp() * (x[2] + x[7]).exp().log1p(), c.beta_scale / ((-x[3] - x[8]).exp() + 1)};
      },
      arguments.x);
}

TEST(GdnInputs, FollowTheFormulasUnderEveryOption) {
  at::manual_seed(1);
  for (const GdnInputsCase& c : test::gdn_inputs_options()) {
    SCOPED_TRACE(c.name());
    const auto arguments =
        test::moved(c, test::gdn_inputs_arguments(c), at::kCPU, at::kDouble, at::kDouble, at::kDouble);
    // PyTorch's softplus is the identity above 20, 2e-9 off.
    test::expect_close(test::run_gdn_inputs(&ops::gdn_inputs, c, arguments), formulas(c, arguments), 2e-9, 2e-9);
  }
}

TEST(GdnInputs, ZeroRowsStayFinite) {
  GdnInputsCase c;
  c.zero = true;
  const auto arguments = test::gdn_inputs_arguments(c);
  const auto y = test::run_gdn_inputs(&ops::gdn_inputs, c,
                                      test::moved(c, arguments, at::kCPU, at::kFloat, at::kFloat, at::kFloat));
  EXPECT_EQ(y.outputs[0].abs().max().item<double>(), 0.0);
  for (const at::Tensor& gradient : y.gradients) {
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  }
}

TEST(GdnInputs, HalfPrecisionKeepsItsTypeAndGatesAreSinglePrecision) {
  const at::NoGradGuard no_grad;
  GdnInputsCase c;
  const auto arguments =
      test::moved(c, test::gdn_inputs_arguments(c), at::kCPU, at::kBFloat16, at::kFloat, at::kBFloat16);
  const Tensors& x = arguments.x;
  const auto y = ops::gdn_inputs(x[0], x[1], x[2], x[3], {x[4], x[5], x[6], x[7], x[8]}, arguments.cos, arguments.sin,
                                 c.norm_eps, c.beta_scale);
  EXPECT_EQ(y.q.scalar_type(), at::kBFloat16);
  EXPECT_EQ(y.g.scalar_type(), at::kFloat);
  EXPECT_EQ(y.beta.scalar_type(), at::kFloat);
  EXPECT_LE(y.g.max().item<double>(), 0.0);
}

TEST(GdnInputs, MismatchedArgumentsAreRefused) {
  const GdnInputsCase c;
  const auto arguments = test::gdn_inputs_arguments(c);
  const Tensors& x = arguments.x;
  const ops::GdnParameters whole{x[4], x[5], x[6], x[7], x[8]};
  ops::GdnParameters one_norm = whole;
  one_norm.k_norm = at::Tensor();
  EXPECT_THROW(ops::gdn_inputs(x[0], x[1], x[2], x[3], one_norm, {}, {}, 1e-6, 1.0), Error);
  EXPECT_THROW(ops::gdn_inputs(x[0], x[1], x[2].narrow(1, 0, 1), x[3], whole, {}, {}, 1e-6, 1.0), Error);
  EXPECT_THROW(ops::gdn_inputs(x[0], x[1], x[2], x[3], whole, arguments.cos, {}, 1e-6, 1.0), Error);
}

}  // namespace
}  // namespace hydra
