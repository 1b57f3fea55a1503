// Causal attention against a plain fp64 softmax over each sequence, with gradients.
#include "hydrahead/ops/attention.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "hydrahead/base/error.hpp"
#include "tests/support/compare.hpp"

namespace hydra {
namespace {

using test::close;

// softmax(scale q k^T + causal) v for each sequence and head, differentiable.
at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::vector<std::int64_t>& kv_index, double scale, const ops::Sequences& sequences) {
  const auto heads = at::tensor(kv_index, at::kLong);
  std::vector<at::Tensor> outputs;
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    const auto begin = sequences.offsets[s];
    const auto length = sequences.length(s);
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, length).transpose(0, 1); };
    const auto ks = part(k).index_select(0, heads);
    const auto vs = part(v).index_select(0, heads);
    const auto mask = at::ones({length, length}, at::kBool).triu(1);
    const auto scores =
        at::matmul(part(q), ks.transpose(1, 2)).mul(scale).masked_fill(mask, -std::numeric_limits<double>::infinity());
    outputs.push_back(at::matmul(scores.softmax(-1), vs).transpose(0, 1));
  }
  return at::cat(outputs);
}

struct Inputs {
  at::Tensor q, k, v;
};
Inputs random_inputs(std::int64_t n, std::int64_t q_heads, std::int64_t kv_heads, std::int64_t d) {
  at::manual_seed(3);
  const auto make = [&](std::int64_t heads) { return at::randn({n, heads, d}, at::kDouble).requires_grad_(true); };
  return {make(q_heads), make(kv_heads), make(kv_heads)};
}

TEST(Attention, EqualsPlainSoftmaxWithGradients) {
  const std::vector<std::vector<std::int64_t>> kv_maps = {{0, 1, 2, 3}, {0, 0, 1, 1}, {1, 0, 0, 2}, {3}};
  const std::vector<std::vector<std::int64_t>> batches = {{40}, {30, 30}, {5, 1, 33, 5}};
  for (const auto& lengths : batches) {
    const auto sequences = ops::make_sequences(lengths, at::kCPU);
    for (const auto& kv_index : kv_maps) {
      const auto heads = static_cast<std::int64_t>(kv_index.size());
      auto a = random_inputs(sequences.rows(), heads, 4, 16);
      auto b = random_inputs(sequences.rows(), heads, 4, 16);
      const auto actual = ops::causal_attention(a.q, a.k, a.v, kv_index, 0.3, sequences);
      const auto expected = plain_attention(b.q, b.k, b.v, kv_index, 0.3, sequences);
      EXPECT_TRUE(close(actual, expected, 1e-12));
      const auto weights = at::randn(actual.sizes(), at::kDouble);
      torch::autograd::backward({(actual * weights).sum()}, {});
      torch::autograd::backward({(expected * weights).sum()}, {});
      EXPECT_TRUE(close(a.q.grad(), b.q.grad(), 1e-11));
      EXPECT_TRUE(close(a.k.grad(), b.k.grad(), 1e-11));
      EXPECT_TRUE(close(a.v.grad(), b.v.grad(), 1e-11));
    }
  }
}

TEST(Attention, CachedEqualsTheWholePass) {
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> kv_index = {0, 0, 1};
  const auto in = random_inputs(50, 3, 2, 16);
  const auto whole = ops::causal_attention(in.q, in.k, in.v, kv_index, 0.25, ops::make_sequences({50}, at::kCPU));
  for (const std::int64_t rows : {1, 7, 49, 50}) {
    const auto last = ops::cached_attention(in.q.narrow(0, 50 - rows, rows), in.k, in.v, kv_index, 0.25);
    EXPECT_TRUE(close(last, whole.narrow(0, 50 - rows, rows), 1e-12)) << rows << " rows";
  }
}

TEST(Attention, NanStaysInItsSequence) {
  const at::NoGradGuard no_grad;
  for (const auto& lengths : {std::vector<std::int64_t>{20, 20, 20}, {10, 30, 20}}) {
    const auto sequences = ops::make_sequences(lengths, at::kCPU);
    const auto in = random_inputs(60, 2, 2, 16);
    const auto clean = ops::causal_attention(in.q, in.k, in.v, {0, 1}, 0.25, sequences);
    const auto v = in.v.clone();
    const auto begin = sequences.offsets[1];
    v.narrow(0, begin, 1).fill_(std::numeric_limits<double>::quiet_NaN());
    const auto dirty = ops::causal_attention(in.q, in.k, v, {0, 1}, 0.25, sequences);
    const auto end = sequences.offsets[2];
    EXPECT_TRUE(test::identical(dirty.narrow(0, 0, begin), clean.narrow(0, 0, begin)));
    EXPECT_TRUE(test::identical(dirty.narrow(0, end, 60 - end), clean.narrow(0, end, 60 - end)));
    EXPECT_TRUE(dirty.narrow(0, begin, 1).isnan().all().item<bool>());
  }
}

TEST(Attention, SinglePrecision) {
  const at::NoGradGuard no_grad;
  const auto in = random_inputs(300, 3, 3, 64);
  const auto sequences = ops::make_sequences({300}, at::kCPU);
  const auto expected = ops::causal_attention(in.q, in.k, in.v, {0, 1, 2}, 0.125, sequences);
  const auto single = [](const at::Tensor& x) { return x.to(at::kFloat); };
  EXPECT_TRUE(close(ops::causal_attention(single(in.q), single(in.k), single(in.v), {0, 1, 2}, 0.125, sequences),
                    expected, 1e-6));
}

TEST(Attention, RefusesAKvHeadThatIsNotThere) {
  const auto in = random_inputs(4, 2, 2, 16);
  EXPECT_THROW(ops::causal_attention(in.q, in.k, in.v, {0, 2}, 1.0, ops::make_sequences({4}, at::kCPU)), Error);
}

}  // namespace
}  // namespace hydra
