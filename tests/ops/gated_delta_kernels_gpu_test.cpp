// What holds for every CUDA path of the gated delta rule beside its values: sequences are kept apart, strides are
// respected, the same inputs give the same bits, a graph can capture it, offsets pass 2^31; and the decode step.
#include <gtest/gtest.h>

#include "tests/support/cuda.hpp"
#if HYDRA_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <limits>

#include "tests/ops/gated_delta_gpu.hpp"
#include "tests/support/compare.hpp"

namespace hydra {
namespace {

using test::close;
using test::DeltaProblem;
using test::identical;
using test::KernelPath;

class GatedDeltaProperties : public ::testing::TestWithParam<KernelPath> {
 protected:
  void SetUp() override {
    HYDRA_NEEDS_CUDA();
    const auto probe = test::stored(test::delta_case({1}, 1, 1, 64, 64, 1, at::kCUDA), type());
    if (!ops::gated_delta_supports(path(), test::tensors_of(probe.c))) {
      GTEST_SKIP() << "SKIPPED: this GPU does not run the path " << test::name_of(GetParam());
    }
  }
  static ops::GatedDeltaPath path() { return GetParam().path; }
  static at::ScalarType type() { return GetParam().type; }

  static DeltaProblem make(const std::vector<std::int64_t>& lengths, std::int64_t size, std::uint64_t seed,
                           std::int64_t key_heads = 2, std::int64_t heads = 2) {
    return test::stored(test::delta_case(lengths, key_heads, heads, size, size, seed, at::kCUDA), type());
  }
  static test::DeltaResult run(const DeltaProblem& p) {
    const test::ForcedPath forced(path());
    return test::run_delta(test::chunked_rule(), p.c, p.d_output, p.d_state);
  }
};

INSTANTIATE_TEST_SUITE_P(Paths, GatedDeltaProperties,
                         ::testing::Values(KernelPath{ops::GatedDeltaPath::portable, at::kFloat},
                                           KernelPath{ops::GatedDeltaPath::portable, at::kBFloat16},
                                           KernelPath{ops::GatedDeltaPath::mma, at::kBFloat16},
                                           KernelPath{ops::GatedDeltaPath::wgmma, at::kBFloat16}),
                         [](const auto& named) { return test::name_of(named.param); });

void expect_identical(const test::DeltaResult& actual, const test::DeltaResult& expected) {
  EXPECT_TRUE(identical(actual.output, expected.output));
  EXPECT_TRUE(identical(actual.final_state, expected.final_state));
  for (std::size_t i = 0; i < expected.gradient.size(); ++i) {
    EXPECT_TRUE(identical(actual.gradient[i], expected.gradient[i])) << "d" << test::kDeltaNames[i];
  }
}

TEST_P(GatedDeltaProperties, NanStaysInItsSequence) {
  const std::vector<std::int64_t> lengths{70, 100, 33, 64, 1, 200};
  for (const std::int64_t size : {64, 128}) {
    for (const std::size_t poisoned : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {  // an input, d_output or d_state
      SCOPED_TRACE(::testing::Message() << "head size " << size << ", input " << poisoned);
      auto p = make(lengths, size, 1);
      const auto clean = run(p);
      for (const std::int64_t s : {1, 4}) {
        auto& x = poisoned < 6 ? p.c.x[poisoned] : poisoned == 6 ? p.d_output : p.d_state;
        const bool of_state = poisoned == 5 || poisoned == 7;
        x.narrow(0, of_state ? s : p.c.sequences.offsets[s], of_state ? 1 : lengths[s])
            .fill_(std::numeric_limits<double>::quiet_NaN());
      }
      const auto y = run(p);
      for (std::int64_t s = 0; s < p.c.sequences.count(); ++s) {
        if (s == 1 || s == 4) {
          continue;
        }
        const auto same = [&](const at::Tensor& a, const at::Tensor& b, bool of_state) {
          const auto begin = of_state ? s : p.c.sequences.offsets[s];
          const auto count = of_state ? 1 : lengths[s];
          return identical(a.narrow(0, begin, count), b.narrow(0, begin, count));
        };
        EXPECT_TRUE(same(y.output, clean.output, false)) << "sequence " << s;
        EXPECT_TRUE(same(y.final_state, clean.final_state, true)) << "sequence " << s;
        for (std::size_t i = 0; i < y.gradient.size(); ++i) {
          EXPECT_TRUE(same(y.gradient[i], clean.gradient[i], i == 5))
              << "d" << test::kDeltaNames[i] << ", sequence " << s;
        }
      }
    }
  }
}

TEST_P(GatedDeltaProperties, ViewsOfAFusedProjection) {
  for (const std::int64_t size : {64, 128}) {
    SCOPED_TRACE(size);
    const auto p = make({130, 70}, size, 2, 2, 4);
    const auto expected = run(p);
    // Columns [q | k | v] of one matrix with 8 columns to spare, and an output gradient with heads before rows.
    const auto rows = p.c.sequences.rows();
    auto fused = at::zeros({rows, 8 * size + 8}, p.d_output.options());
    auto strided = p;
    for (std::size_t i = 0, column = 0; i < 3; ++i) {
      const auto heads = p.c.x[i].size(1);
      auto view = fused.narrow(1, static_cast<std::int64_t>(column), heads * size).view({rows, heads, size});
      view.copy_(p.c.x[i]);
      strided.c.x[i] = view;
      column += static_cast<std::size_t>(heads * size);
    }
    strided.d_output = p.d_output.transpose(0, 1).contiguous().transpose(0, 1);
    // Not run_delta, whose clones are contiguous.
    const auto x = ops::prepared_for(path(), test::tensors_of(strided.c));
    EXPECT_EQ(x.q.const_data_ptr(), strided.c.x[0].const_data_ptr());
    EXPECT_EQ(x.v.const_data_ptr(), strided.c.x[2].const_data_ptr());
    const auto y = ops::gated_delta_forward(path(), x, true, true);
    const auto d = ops::gated_delta_backward(path(), x, y.saved, strided.d_output, p.d_state);
    EXPECT_TRUE(identical(y.output, expected.output));
    EXPECT_TRUE(identical(y.final_state, expected.final_state));
    EXPECT_TRUE(identical(d.v, expected.gradient[2]));
    EXPECT_TRUE(identical(d.g, expected.gradient[3]));
    EXPECT_TRUE(identical(ops::sum_shared_heads(d.q, x.q), expected.gradient[0]));
    EXPECT_TRUE(identical(ops::sum_shared_heads(d.k, x.k), expected.gradient[1]));
  }
}

TEST_P(GatedDeltaProperties, RowsThatMustBeCopied) {
  const auto p = make({130, 70}, 64, 3);
  const auto expected = run(p);
  auto odd = p;  // rows start at odd multiples of an element; keys are transposed
  auto wide = at::zeros({p.c.sequences.rows(), 2 * 64 + 3}, p.d_output.options());
  odd.c.x[0] = wide.narrow(1, 1, 2 * 64).view({-1, 2, 64});
  odd.c.x[0].copy_(p.c.x[0]);
  odd.c.x[1] = p.c.x[1].transpose(1, 2).contiguous().transpose(1, 2);
  const test::ForcedPath forced(path());
  const auto y = test::chunked_rule()(odd.c);
  EXPECT_TRUE(identical(y.output, expected.output));
  // An expanded gradient, as sum() makes it.
  auto local = p.c;
  for (auto& x : local.x) {
    x = x.detach().clone().requires_grad_(true);
  }
  torch::autograd::backward({test::chunked_rule()(local).output.sum()}, {});
  auto ones = p;
  ones.d_output.fill_(1);
  ones.d_state.zero_();
  EXPECT_TRUE(close(local.x[2].grad(), test::reference(ones).gradient[2], test::limit_of(GetParam(), 4)));
}

TEST_P(GatedDeltaProperties, EmptySequences) {
  for (const std::int64_t size : {64, 128}) {
    SCOPED_TRACE(size);
    const auto p = make({5, 130, 64}, size, 4);
    const auto run_raw = [&](const std::vector<std::int64_t>& offsets, const std::vector<std::int64_t>& entries) {
      const auto index = at::tensor(entries, at::kLong).to(at::kCUDA);
      auto x = test::tensors_of(p.c);
      x.offsets = at::tensor(offsets, at::kLong).to(at::kCUDA, at::kInt);
      x.initial_state = p.c.x[5].index_select(0, index);
      x = ops::prepared_for(path(), x);
      const auto y = ops::gated_delta_forward(path(), x, true, true);
      const auto d = ops::gated_delta_backward(path(), x, y.saved, p.d_output, p.d_state.index_select(0, index));
      return std::pair{y, d};
    };
    const auto [y, d] = run_raw({0, 5, 135, 199}, {0, 1, 2});
    const auto [z, e] = run_raw({0, 0, 5, 5, 5, 135, 199, 199}, {2, 0, 1, 0, 1, 2, 1});
    EXPECT_TRUE(identical(z.output, y.output));
    EXPECT_TRUE(identical(e.q, d.q));
    EXPECT_TRUE(identical(e.k, d.k));
    EXPECT_TRUE(identical(e.v, d.v));
    EXPECT_TRUE(identical(e.g, d.g));
    EXPECT_TRUE(identical(e.beta, d.beta));
    EXPECT_TRUE(identical(z.final_state[1], y.final_state[0]));
    EXPECT_TRUE(identical(e.initial_state[5], d.initial_state[2]));
    for (const auto& [sequence, entry] : {std::pair{0, 2}, {2, 1}, {3, 0}, {6, 1}}) {  // pass their states through
      EXPECT_TRUE(identical(z.final_state[sequence], p.c.x[5][entry])) << sequence;
      EXPECT_TRUE(identical(e.initial_state[sequence], p.d_state[entry])) << sequence;
    }
  }
}

TEST_P(GatedDeltaProperties, SameInputsGiveTheSameBits) {
  for (const std::int64_t size : {64, 128}) {
    SCOPED_TRACE(size);
    const auto p = make({3000, 100, 1, 2000}, size, 5, 4, 8);
    const auto first = run(p);
    for (int i = 0; i < 3; ++i) {
      expect_identical(run(p), first);
    }
  }
}

TEST_P(GatedDeltaProperties, AGraphCapturesForwardAndBackward) {
  for (const std::int64_t size : {64, 128}) {
    SCOPED_TRACE(size);
    const auto p = make({300, 65, 2000}, size, 6);
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    const auto x = ops::prepared_for(path(), test::tensors_of(p.c));
    const auto run_raw = [&] {
      const auto y = ops::gated_delta_forward(path(), x, true, true);
      const auto d = ops::gated_delta_backward(path(), x, y.saved, p.d_output, p.d_state);
      return test::DeltaResult{y.output, y.final_state, {d.q, d.k, d.v, d.g, d.beta, d.initial_state}};
    };
    run_raw();
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    const auto captured = run_raw();
    graph.capture_end();
    for (const double factor : {1.0, -0.5}) {
      x.v.mul_(factor);
      graph.replay();
      expect_identical(captured, run_raw());
    }
  }
}

TEST_P(GatedDeltaProperties, OffsetsBeyond32Bits) {
  constexpr std::int64_t kRows = std::int64_t{1} << 20, kHeads = 16, kSize = 128, kTail = 300;
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  if (type() == at::kFloat || total < (std::size_t{130} << 30)) {
    GTEST_SKIP() << "SKIPPED: bf16 on a GPU with 130 GiB only";
  }
  // A long sequence and a short one behind it, at rows whose offsets pass 2^31 elements: the short one is as if alone.
  at::manual_seed(7);
  const auto rows = at::TensorOptions(at::kCUDA).dtype(type());
  const auto gates = rows.dtype(at::kFloat);
  const auto unit = [&] { return at::randn({kRows, kHeads, kSize}, rows).div_(std::sqrt(double{kSize})); };
  ops::GatedDeltaTensors x;
  x.q = unit();
  x.k = unit().mul_(0.5);
  x.v = at::randn({kRows, kHeads, kSize}, rows);
  x.g = at::rand({kRows, kHeads}, gates).mul_(-0.1);
  x.beta = at::rand({kRows, kHeads}, gates);
  x.offsets = at::tensor({std::int64_t{0}, kRows - kTail, kRows}, at::kLong).to(at::kCUDA, at::kInt);
  x.scale = 0.1;
  const auto d_output = unit();
  const auto y = ops::gated_delta_forward(path(), x, true, true);
  const auto d = ops::gated_delta_backward(path(), x, y.saved, d_output, {});

  const auto tail = [&](const at::Tensor& t) { return t.narrow(0, kRows - kTail, kTail); };
  ops::GatedDeltaTensors alone{tail(x.q),
                               tail(x.k),
                               tail(x.v),
                               tail(x.g),
                               tail(x.beta),
                               {},
                               at::tensor({std::int64_t{0}, kTail}, at::kLong).to(at::kCUDA, at::kInt),
                               x.scale};
  const auto z = ops::gated_delta_forward(path(), alone, true, true);
  const auto e = ops::gated_delta_backward(path(), alone, z.saved, tail(d_output), {});
  const double limit = test::limit_of(GetParam(), 0);
  EXPECT_TRUE(close(tail(y.output), z.output, limit));
  EXPECT_TRUE(close(y.final_state[1], z.final_state[0], limit));
  EXPECT_TRUE(close(tail(d.q), e.q, limit));
  EXPECT_TRUE(close(tail(d.k), e.k, limit));
  EXPECT_TRUE(close(tail(d.v), e.v, limit));
  EXPECT_TRUE(close(tail(d.g), e.g, 2 * limit));
  EXPECT_TRUE(close(tail(d.beta), e.beta, limit));
  // The first rows read nothing of what follows; their output is that of a short prefix.
  ops::GatedDeltaTensors prefix{x.q.narrow(0, 0, 100),
                                x.k.narrow(0, 0, 100),
                                x.v.narrow(0, 0, 100),
                                x.g.narrow(0, 0, 100),
                                x.beta.narrow(0, 0, 100),
                                {},
                                at::tensor({0, 100}, at::kInt).to(at::kCUDA),
                                x.scale};
  EXPECT_TRUE(close(y.output.narrow(0, 0, 100), ops::gated_delta_forward(path(), prefix, false, false).output, limit));
  EXPECT_TRUE(y.output.narrow(0, kRows / 2, 1000).isfinite().all().item<bool>());
}

class GatedDeltaDecode : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { HYDRA_NEEDS_CUDA(); }
};

INSTANTIATE_TEST_SUITE_P(Types, GatedDeltaDecode, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& named) { return named.param == at::kFloat ? "fp32" : "bf16"; });

TEST_P(GatedDeltaDecode, EqualsTheRecurrenceAndUpdatesItsEntries) {
  const double output_limit = GetParam() == at::kFloat ? 1e-5 : 5e-3;
  for (const auto& [k_size, v_size] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {128, 128}, {64, 64}, {16, 32}, {80, 80}, {256, 256}, {30, 34}, {128, 40}}) {
    for (const auto& lengths : std::vector<std::vector<std::int64_t>>{{1, 1, 1}, {8, 1, 3}, {2}}) {
      SCOPED_TRACE(::testing::Message() << "K " << k_size << ", V " << v_size << ", " << lengths.size()
                                        << " sequences, the first of " << lengths[0]);
      const auto p = test::stored(test::delta_case(lengths, 2, 4, k_size, v_size, 8, at::kCUDA), GetParam());
      const auto expected = test::reference(p);
      const auto count = static_cast<std::int64_t>(lengths.size());
      const auto index = at::arange(count, 0, -1, at::TensorOptions(at::kCUDA).dtype(at::kInt));
      const auto before = at::randn({count + 2, 4, v_size, k_size}, p.c.x[5].options());
      before.index_copy_(0, index.to(at::kLong), p.c.x[5]);
      auto pool = before.clone();
      const auto output = ops::gated_delta_decode(test::tensors_of(p.c), pool, index);
      EXPECT_TRUE(close(output, expected.output, output_limit));
      EXPECT_TRUE(close(pool.index_select(0, index.to(at::kLong)), expected.final_state, 1e-5));
      EXPECT_TRUE(identical(pool[0], before[0]));
      EXPECT_TRUE(identical(pool[count + 1], before[count + 1]));

      pool = before.clone();
      auto skipping = index.clone();
      skipping[0] = -1;
      ops::gated_delta_decode(test::tensors_of(p.c), pool, skipping);
      EXPECT_TRUE(identical(pool[count], before[count]));  // the entry of the first sequence
    }
  }
}

TEST_P(GatedDeltaDecode, StepsEqualOnePass) {
  const auto p = test::stored(test::delta_case({100}, 2, 2, 64, 64, 9, at::kCUDA), GetParam());
  const auto expected = test::reference(p);
  at::Tensor state = p.c.x[5].clone();
  std::vector<at::Tensor> outputs;
  for (std::int64_t begin = 0; begin < 100; begin += 20) {
    for (const auto& [first, length] :
         {std::pair{begin, std::int64_t{11}}, {begin + 11, std::int64_t{8}}, {begin + 19, std::int64_t{1}}}) {
      const auto part = [&](std::size_t i) { return p.c.x[i].narrow(0, first, length); };
      const auto y = ops::gated_delta_step(part(0), part(1), part(2), part(3), part(4), p.c.scale,
                                           ops::make_sequences({length}, at::kCUDA, {first}), state);
      outputs.push_back(y.output);
      state = y.final_state;
    }
  }
  const double limit = GetParam() == at::kFloat ? 1e-5 : 5e-3;
  EXPECT_TRUE(close(at::cat(outputs), expected.output, limit));
  EXPECT_TRUE(close(state, expected.final_state, limit));
}

TEST_P(GatedDeltaDecode, AGraphCapturesIt) {
  const auto p = test::stored(test::delta_case({1, 1, 1, 1}, 16, 16, 128, 128, 10, at::kCUDA), GetParam());
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  auto captured_state = p.c.x[5].clone();
  auto eager_state = p.c.x[5].clone();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const auto captured = ops::gated_delta_decode(test::tensors_of(p.c), captured_state);
  graph.capture_end();
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    EXPECT_TRUE(identical(captured, ops::gated_delta_decode(test::tensors_of(p.c), eager_state)));
    EXPECT_TRUE(identical(captured_state, eager_state));
  }
}

}  // namespace
}  // namespace hydra
#endif
