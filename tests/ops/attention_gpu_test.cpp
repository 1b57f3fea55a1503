// Attention on CUDA against fp64 on the CPU, for each back end: equal lengths, sequence offsets, fp32, and the cache.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "hydrahead/ops/attention.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/cuda.hpp"

namespace hydra {
namespace {

using test::close;

struct Result {
  at::Tensor output, dq, dk, dv;
};

struct Case {
  std::vector<std::int64_t> lengths, kv_index;
  at::Tensor q, k, v, weights;  // fp64 on the CPU, exactly representable in the tested type
};

Case make_case(const std::vector<std::int64_t>& lengths, const std::vector<std::int64_t>& kv_index,
               std::int64_t kv_heads, std::int64_t d, at::ScalarType type) {
  at::manual_seed(4);
  const auto rows = ops::make_sequences(lengths, at::kCPU).rows();
  const auto heads = static_cast<std::int64_t>(kv_index.size());
  const auto make = [&](std::int64_t h) { return at::randn({rows, h, d}, at::kDouble).to(type).to(at::kDouble); };
  return {lengths, kv_index, make(heads), make(kv_heads), make(kv_heads), make(heads)};
}

Result run(const Case& c, at::Device device, at::ScalarType type) {
  const auto leaf = [&](const at::Tensor& x) { return x.detach().to(device, type).requires_grad_(true); };
  const auto q = leaf(c.q);
  const auto k = leaf(c.k);
  const auto v = leaf(c.v);
  const auto y = ops::causal_attention(q, k, v, c.kv_index, 0.125, ops::make_sequences(c.lengths, device));
  torch::autograd::backward({y}, {c.weights.to(device, type)});
  return {y.detach(), q.grad(), k.grad(), v.grad()};
}

void expect_close_to_cpu(const std::vector<std::int64_t>& lengths, std::int64_t d, at::ScalarType type,
                         double tolerance) {
  for (const auto& kv_index : {std::vector<std::int64_t>{0, 0, 1, 1}, {1, 0, 0, 1}}) {
    const auto c = make_case(lengths, kv_index, 2, d, type);
    const auto expected = run(c, at::kCPU, at::kDouble);
    const auto actual = run(c, at::kCUDA, type);
    EXPECT_TRUE(close(actual.output, expected.output, tolerance));
    EXPECT_TRUE(close(actual.dq, expected.dq, tolerance));
    EXPECT_TRUE(close(actual.dk, expected.dk, tolerance));
    EXPECT_TRUE(close(actual.dv, expected.dv, tolerance));
  }
}

TEST(AttentionGpu, EqualLengths) {
  HYDRA_NEEDS_CUDA();
  expect_close_to_cpu({256, 256, 256}, 64, at::kBFloat16, 8e-3);
  expect_close_to_cpu({300, 300}, 128, at::kBFloat16, 8e-3);
  expect_close_to_cpu({1, 1}, 64, at::kBFloat16, 8e-3);
}

TEST(AttentionGpu, SequenceOffsets) {
  HYDRA_NEEDS_CUDA();
  expect_close_to_cpu({256, 1, 77, 1021}, 64, at::kBFloat16, 8e-3);
  expect_close_to_cpu({256, 1, 77, 1021}, 128, at::kBFloat16, 8e-3);
}

TEST(AttentionGpu, SinglePrecision) {
  HYDRA_NEEDS_CUDA();
  expect_close_to_cpu({256, 256}, 64, at::kFloat, 1e-5);
  expect_close_to_cpu({256, 1, 77, 77}, 64, at::kFloat, 1e-5);
}

TEST(AttentionGpu, CachedEqualsTheWholePass) {
  HYDRA_NEEDS_CUDA();
  const at::NoGradGuard no_grad;
  for (const auto& [type, tolerance] : {std::pair{at::kBFloat16, 8e-3}, {at::kFloat, 1e-5}}) {
    const auto c = make_case({500}, {0, 0, 1, 1}, 2, 64, type);
    const auto whole = ops::causal_attention(c.q, c.k, c.v, c.kv_index, 0.125, ops::make_sequences({500}, at::kCPU));
    const auto gpu = [&, t = type](const at::Tensor& x) { return x.to(at::kCUDA, t); };
    for (const std::int64_t rows : {1, 7, 500}) {
      const auto last =
          ops::cached_attention(gpu(c.q.narrow(0, 500 - rows, rows)), gpu(c.k), gpu(c.v), c.kv_index, 0.125);
      EXPECT_TRUE(close(last, whole.narrow(0, 500 - rows, rows), tolerance)) << rows << " rows";
    }
  }
}

TEST(AttentionGpu, NanStaysInItsSequence) {
  HYDRA_NEEDS_CUDA();
  for (const auto& lengths : {std::vector<std::int64_t>{64, 64, 64}, {100, 60, 32}}) {
    auto c = make_case(lengths, {0, 1}, 2, 64, at::kBFloat16);
    const auto clean = run(c, at::kCUDA, at::kBFloat16);
    c.v.narrow(0, lengths[0] + 3, 1).fill_(std::numeric_limits<double>::quiet_NaN());
    const auto dirty = run(c, at::kCUDA, at::kBFloat16);
    const auto end = lengths[0] + lengths[1];
    for (const auto& [begin, count] : {std::pair<std::int64_t, std::int64_t>{0, lengths[0]}, {end, lengths[2]}}) {
      EXPECT_TRUE(close(dirty.output.narrow(0, begin, count), clean.output.narrow(0, begin, count), 0));
      EXPECT_TRUE(close(dirty.dk.narrow(0, begin, count), clean.dk.narrow(0, begin, count), 1e-3));
    }
  }
}

}  // namespace
}  // namespace hydra
