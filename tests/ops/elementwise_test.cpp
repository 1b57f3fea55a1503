// Norms, rotation, linear layers, MLP and short convolution against their formulas through plain autograd.
#include "hydrahead/ops/elementwise.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <limits>

#include "hydrahead/base/error.hpp"
#include "tests/support/compare.hpp"

namespace hydra {
namespace {

using test::close;
using Tensors = std::vector<at::Tensor>;
using Op = std::function<at::Tensor(const Tensors&)>;

at::Tensor random(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }

// Values and gradients of `op` equal those of `reference` for every input.
void expect_same(const Op& op, const Op& reference, const Tensors& inputs, double tolerance = 1e-12) {
  const auto run = [&](const Op& f) {
    Tensors leaves;
    for (const auto& x : inputs) {
      leaves.push_back(x.detach().clone().requires_grad_(true));
    }
    const auto y = f(leaves);
    const auto weights = at::arange(y.numel(), at::kDouble).sin().view(y.sizes());
    torch::autograd::backward({(y * weights).sum()}, {});
    Tensors result{y.detach()};
    for (const auto& leaf : leaves) {
      result.push_back(leaf.grad());
    }
    return result;
  };
  const auto actual = run(op);
  const auto expected = run(reference);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(close(actual[i], expected[i], tolerance)) << (i == 0 ? "value" : "gradient of input ") << i;
  }
}

TEST(Sequences, OffsetsAndPositions) {
  const auto s = ops::make_sequences({3, 0, 2}, at::kCPU, {0, 5, 7});
  EXPECT_EQ(s.offsets, (std::vector<std::int64_t>{0, 3, 5}));
  EXPECT_EQ(s.start, (std::vector<std::int64_t>{0, 7}));
  EXPECT_EQ(s.max_length, 3);
  EXPECT_TRUE(at::equal(s.positions, at::tensor({0, 1, 2, 7, 8}, at::kLong)));
  EXPECT_TRUE(at::equal(s.offsets_device, at::tensor({0, 3, 5}, at::kInt)));
  EXPECT_THROW(ops::make_sequences({-1}, at::kCPU), Error);
}

TEST(Norm, RmsNorm) {
  expect_same([](const Tensors& t) { return ops::rms_norm(t[0], t[1], 1e-6); },
              [](const Tensors& t) { return t[0] * (t[0].square().mean(-1, true) + 1e-6).rsqrt() * t[1]; },
              {random({5, 3, 8}), random({8})});
  expect_same([](const Tensors& t) { return ops::rms_norm(t[0], {}, 1e-6); },
              [](const Tensors& t) { return t[0] * (t[0].square().mean(-1, true) + 1e-6).rsqrt(); }, {random({5, 8})});
}

TEST(Norm, L2Norm) {
  expect_same([](const Tensors& t) { return ops::l2_norm(t[0]); },
              [](const Tensors& t) { return t[0] * (t[0].square().sum(-1, true) + 1e-6).rsqrt(); },
              {random({5, 3, 8})});
}

TEST(Norm, ZeroRowsStayFinite) {
  auto x = at::zeros({2, 8}, at::kFloat).requires_grad_(true);
  const auto y = ops::l2_norm(x);
  torch::autograd::backward({y.sum()}, {});
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  EXPECT_EQ(y.abs().max().item<float>(), 0.0F);
}

TEST(Norm, StatisticsOf16BitInputsAreSinglePrecision) {
  const auto x = (random({4, 1024}) + 8).to(at::kBFloat16);
  const auto expected = x.to(at::kDouble) * (x.to(at::kDouble).square().mean(-1, true) + 1e-6).rsqrt();
  const auto actual = ops::rms_norm(x, {}, 1e-6);
  EXPECT_EQ(actual.scalar_type(), at::kBFloat16);
  EXPECT_LE(test::compare(actual, expected.to(at::kBFloat16)).relative_l2, 1e-4);
}

TEST(Rotate, EqualsTheComplexProduct) {
  const auto angle = random({6, 4});
  const auto cos = angle.cos();
  const auto sin = angle.sin();
  expect_same([&](const Tensors& t) { return ops::rotate(t[0], cos, sin); },
              [&](const Tensors& t) {
                const auto z = at::complex(t[0].narrow(2, 0, 4).contiguous(), t[0].narrow(2, 4, 4).contiguous());
                const auto y = z * at::complex(cos, sin).unsqueeze(1);
                return at::cat({at::real(y), at::imag(y)}, 2);
              },
              {random({6, 3, 8})});
}

TEST(NormRotate, IsTheRotationOfTheNorm) {
  at::manual_seed(5);
  const auto x = random({6, 3, 8}), weight = random({8}), angle = random({6, 4}).to(at::kFloat);
  const auto cos = angle.cos(), sin = angle.sin();
  const Op both = [&](const Tensors& t) { return ops::rotate(ops::rms_norm(t[0], t[1], 1e-6), cos, sin); };
  expect_same([&](const Tensors& t) { return ops::norm_rotate(t[0], t[1], cos, sin, 1e-6); }, both, {x, weight}, 0.0);
  expect_same([](const Tensors& t) { return ops::norm_rotate(t[0], t[1], {}, {}, 1e-6); },
              [](const Tensors& t) { return ops::rms_norm(t[0], t[1], 1e-6); }, {x, weight}, 0.0);
  EXPECT_THROW(ops::norm_rotate(x, weight, cos, {}, 1e-6), Error);
  EXPECT_THROW(ops::norm_rotate(x, weight, cos.narrow(0, 0, 5), sin.narrow(0, 0, 5), 1e-6), Error);
  EXPECT_THROW(ops::norm_rotate(x, weight.narrow(0, 0, 4), cos, sin, 1e-6), Error);
}

TEST(Linear, ValuesAndGradients) {
  expect_same([](const Tensors& t) { return ops::linear(t[0], t[1], t[2]); },
              [](const Tensors& t) { return at::matmul(t[0], t[1].t()) + t[2]; },
              {random({7, 5}), random({4, 5}), random({4})});
  expect_same([](const Tensors& t) { return ops::linear(t[0], t[1]); },
              [](const Tensors& t) { return at::matmul(t[0], t[1].t()); }, {random({7, 2, 5}), random({4, 5})});
}

TEST(Linear, AMasterKeepsItsTypeAndAFrozenWeightGetsNoGradient) {
  auto x = random({7, 5}).to(at::kBFloat16).requires_grad_(true);
  auto weight = random({4, 5}).to(at::kFloat).requires_grad_(true);
  const auto frozen = random({3, 4}).to(at::kFloat);
  const auto y = ops::linear(ops::linear(x, weight), frozen);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  torch::autograd::backward({y.sum()}, {});
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(x.grad().scalar_type(), at::kBFloat16);
  EXPECT_FALSE(frozen.grad().defined());
}

TEST(SwigluMlp, ValuesAndGradients) {
  expect_same([](const Tensors& t) { return ops::swiglu_mlp(t[0], t[1], t[2], t[3]); },
              [](const Tensors& t) {
                const auto g = at::matmul(t[0], t[1].t());
                return at::matmul(g * g.sigmoid() * at::matmul(t[0], t[2].t()), t[3].t());
              },
              {random({7, 5}), random({9, 5}), random({9, 5}), random({5, 9})});
}

// y_t = sum_j w_j x_{t-3+j} within a sequence, with the history's rows before it.
at::Tensor plain_conv(const at::Tensor& x, const at::Tensor& w, const at::Tensor& history,
                      const std::vector<std::int64_t>& lengths) {
  std::vector<at::Tensor> outputs;
  std::int64_t begin = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const auto rows = at::cat({history[static_cast<std::int64_t>(s)].t(), x.narrow(0, begin, lengths[s])});
    at::Tensor y = at::zeros({lengths[s], x.size(1)}, x.options());
    for (std::int64_t tap = 0; tap < 4; ++tap) {
      y = y + rows.narrow(0, tap, lengths[s]) * w.select(1, tap);
    }
    outputs.push_back(y);
    begin += lengths[s];
  }
  return at::cat(outputs);
}

TEST(ShortConv, ValuesGradientsAndBoundaries) {
  const std::vector<std::int64_t> lengths = {5, 1, 2, 9};
  const auto sequences = ops::make_sequences(lengths, at::kCPU);
  expect_same([&](const Tensors& t) { return ops::short_conv(t[0], t[1], sequences, t[2]).output; },
              [&](const Tensors& t) { return plain_conv(t[0], t[1], t[2], lengths); },
              {random({17, 6}), random({6, 4}), random({4, 6, 3})});
  expect_same([&](const Tensors& t) { return ops::short_conv(t[0], t[1], sequences).output; },
              [&](const Tensors& t) {
                return plain_conv(t[0], t[1], at::zeros({4, 6, 3}, at::kDouble), lengths);
              },
              {random({17, 6}), random({6, 4})});
}

TEST(ShortConv, SiluFollowsTheConvolution) {
  const std::vector<std::int64_t> lengths = {5, 1, 11};
  const auto sequences = ops::make_sequences(lengths, at::kCPU);
  expect_same([&](const Tensors& t) { return ops::short_conv(t[0], t[1], sequences, t[2], true).output; },
              [&](const Tensors& t) {
                const auto u = plain_conv(t[0], t[1], t[2], lengths);
                return u * u.sigmoid();
              },
              {random({17, 6}), random({6, 4}), random({3, 6, 3})});
}

TEST(ShortConv, HistoryChainsAcrossCalls) {
  const auto x = random({20, 6});
  const auto w = random({6, 4});
  const auto whole = ops::short_conv(x, w, ops::make_sequences({20}, at::kCPU));
  at::Tensor history;
  Tensors outputs;
  std::int64_t begin = 0;
  for (const std::int64_t length : {1, 1, 7, 2, 9}) {
    const auto part = ops::short_conv(x.narrow(0, begin, length), w, ops::make_sequences({length}, at::kCPU), history);
    outputs.push_back(part.output);
    history = part.history;
    begin += length;
  }
  EXPECT_TRUE(close(at::cat(outputs), whole.output, 1e-14));
  EXPECT_TRUE(test::identical(history, whole.history));
  EXPECT_TRUE(test::identical(history[0], x.narrow(0, 17, 3).t()));
}

}  // namespace
}  // namespace hydra
