// Every CUDA path of the gated delta rule, through autograd, against the fp64 recurrence: values and each gradient, at
// chunk edges, over packed sequences and grids far larger than the GPU, for extreme gates, betas and keys.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tests/support/compare.hpp"
#include "tests/support/cuda.hpp"
#if HYDRA_CUDA
#include "hydrahead/base/error.hpp"
#include "tests/ops/gated_delta_gpu.hpp"
#else
#include "tests/ops/gated_delta_cases.hpp"
#endif

namespace hydra {
namespace {

TEST(GatedDeltaGpu, DoublePrecisionEqualsTheCpu) {
  HYDRA_NEEDS_CUDA();
  const auto c = test::delta_case({130, 5}, 1, 2, 16, 16, 1);
  auto on_gpu = c;
  on_gpu.sequences = ops::make_sequences({130, 5}, at::kCUDA);
  for (auto& x : on_gpu.x) {
    x = x.to(at::kCUDA);
  }
  const auto actual = test::chunked_rule()(on_gpu);
  const auto expected = test::chunked_rule()(c);
  EXPECT_TRUE(test::close(actual.output, expected.output, 1e-12));
  EXPECT_TRUE(test::close(actual.final_state, expected.final_state, 1e-12));
}

#if HYDRA_CUDA
using test::DeltaCase;
using test::DeltaProblem;
using test::KernelPath;

class GatedDeltaKernels : public ::testing::TestWithParam<KernelPath> {
 protected:
  void SetUp() override {
    HYDRA_NEEDS_CUDA();
    const auto probe = test::stored(test::delta_case({1}, 1, 1, 64, 64, 1, at::kCUDA), GetParam().type);
    if (!ops::gated_delta_supports(GetParam().path, test::tensors_of(probe.c))) {
      GTEST_SKIP() << "SKIPPED: this GPU does not run the path " << test::name_of(GetParam());
    }
  }
  static void TearDownTestSuite() { std::fputs(summary_.text().c_str(), stdout); }

  // Pairs of K and V that the path takes.
  static std::vector<std::pair<std::int64_t, std::int64_t>> sizes() {
    std::vector<std::pair<std::int64_t, std::int64_t>> sizes{{64, 64}, {128, 128}};
    if (GetParam().path == ops::GatedDeltaPath::portable) {
      sizes.insert(sizes.end(), {{16, 16}, {32, 32}, {80, 80}, {256, 256}, {64, 34}, {10, 96}, {250, 6}});
    }
    return sizes;
  }

  static DeltaCase make(const std::vector<std::int64_t>& lengths, std::int64_t size, std::uint64_t seed,
                        std::int64_t key_heads = 2, std::int64_t heads = 2) {
    return test::delta_case(lengths, key_heads, heads, size, size, seed, at::kCUDA);
  }

  static test::DeltaResult run(const DeltaProblem& p) {
    const test::ForcedPath forced(GetParam().path);
    return test::run_delta(test::chunked_rule(), p.c, p.d_output, p.d_state);
  }

  // `tensor_core_limit`: for the paths with bf16 operands, where it is above their usual one.
  static void expect_right(const DeltaCase& c, double tensor_core_limit = 0.0) {
    const auto p = test::stored(c, GetParam().type);
    const auto errors = test::errors_of(run(p), test::reference(p), p.d_output);
    summary_.add(test::name_of(GetParam()), errors);
    const double least = GetParam().path == ops::GatedDeltaPath::portable ? 0.0 : tensor_core_limit;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      EXPECT_LE(errors[i], std::max(test::limit_of(GetParam(), i), least))
          << test::kErrorNames[i] << "; all errors:" << test::ErrorSummary::line(errors);
    }
  }

  // Where few values carry a result (one row; a state that decays at once), one rounding of a dot product that nearly
  // cancels would decide its relative error, unless there are many heads.
  static constexpr std::int64_t kManyHeads = 16;

  inline static test::ErrorSummary summary_;
};

INSTANTIATE_TEST_SUITE_P(Paths, GatedDeltaKernels,
                         ::testing::Values(KernelPath{ops::GatedDeltaPath::portable, at::kFloat},
                                           KernelPath{ops::GatedDeltaPath::portable, at::kBFloat16},
                                           KernelPath{ops::GatedDeltaPath::mma, at::kBFloat16},
                                           KernelPath{ops::GatedDeltaPath::wgmma, at::kBFloat16}),
                         [](const auto& named) { return test::name_of(named.param); });

TEST_P(GatedDeltaKernels, ChunkEdgesAtEveryHeadSize) {
  for (const auto& [k_size, v_size] : sizes()) {
    for (const std::int64_t length : {1, 2, 63, 64, 65, 127, 128, 129}) {
      SCOPED_TRACE(::testing::Message() << "K " << k_size << ", V " << v_size << ", T " << length);
      expect_right(test::delta_case({length}, kManyHeads, kManyHeads, k_size, v_size, 1, at::kCUDA));
    }
  }
}

TEST_P(GatedDeltaKernels, LongSequences) {
  for (const std::int64_t size : {64, 128}) {
    for (const double decay : {1.0, 0.25, 1e-3}) {  // 0.25: half of a segment of 16 chunks lasts
      SCOPED_TRACE(::testing::Message() << "head size " << size << ", decay times " << decay);
      auto c = make({4097}, size, 2, 3, 3);
      c.x[3].mul_(decay);
      expect_right(c);
    }
  }
  expect_right(make({40000}, 128, 3, 1, 1));
}

TEST_P(GatedDeltaKernels, SummariesOfPartsJoinToTheWholeSequence) {
  for (const std::int64_t size : {64, 128}) {
    SCOPED_TRACE(size);
    const auto p = test::stored(make({4097}, size, 5, 2, 4), GetParam().type);
    const test::ForcedPath forced(GetParam().path);
    auto state = p.c.x[5];
    for (const auto& [first, rows] : {std::pair(0, 1500), std::pair(1500, 2597)}) {
      const auto part = [&, first = first, rows = rows](int i) { return p.c.x[i].narrow(0, first, rows); };
      const auto summary =
          ops::gated_delta_summary(part(1), part(2), part(3), part(4), ops::make_sequences({rows}, at::kCUDA));
      state = at::matmul(state, summary.transition) + summary.state;
    }
    const auto right = test::reference(p).final_state;
    EXPECT_LE((state - right).norm().item<double>() / right.norm().item<double>(), 5e-3);
  }
}

TEST_P(GatedDeltaKernels, PackedSequencesOfUnequalLengths) {
  for (const std::int64_t size : {64, 128}) {
    SCOPED_TRACE(size);
    expect_right(make({5, 300, 64, 1, 129, 63, 128, 1021, 2, 1}, size, 4));
  }
}

TEST_P(GatedDeltaKernels, GridsFarLargerThanTheGpu) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t s = 0; s < 300; ++s) {
    lengths.push_back(80 + (s * 37) % 60);
  }
  for (const std::int64_t size : {64, 128}) {
    SCOPED_TRACE(size);
    expect_right(make(lengths, size, 5, 16, 16));
  }
}

TEST_P(GatedDeltaKernels, SharedKeyHeads) {
  for (const std::int64_t size : {64, 128}) {
    SCOPED_TRACE(size);
    expect_right(make({130, 70}, size, 6, 2, 6));
    expect_right(make({100, 1}, size, 6, 1, 4));
  }
}

TEST_P(GatedDeltaKernels, WithoutInitialState) {
  for (const std::int64_t size : {64, 128}) {
    SCOPED_TRACE(size);
    auto c = make({200, 40}, size, 7);
    c.x[5] = at::Tensor();
    expect_right(c);
  }
}

TEST_P(GatedDeltaKernels, ExtremeGates) {
  for (const std::int64_t size : {64, 128}) {
    for (const double g : {0.0, -100.0, -1e-6, -8.0}) {
      SCOPED_TRACE(::testing::Message() << "head size " << size << ", g " << g);
      auto c = make({150, 64}, size, 8, kManyHeads, kManyHeads);
      c.x[3].fill_(g);
      expect_right(c);
    }
    SCOPED_TRACE(::testing::Message() << "head size " << size << ", mixed");
    auto mixed = make({300, 65}, size, 9, kManyHeads, kManyHeads);
    mixed.x[3].masked_fill_(at::rand_like(mixed.x[3]) < 0.3, 0.0);
    mixed.x[3].masked_fill_(at::rand_like(mixed.x[3]) < 0.1, -100.0);
    expect_right(mixed);
  }
}

TEST_P(GatedDeltaKernels, ExtremeBetas) {
  for (const std::int64_t size : {64, 128}) {
    for (const double beta : {0.0, 1.0, 2.0}) {
      SCOPED_TRACE(::testing::Message() << "head size " << size << ", beta " << beta);
      auto c = make({150, 64}, size, 10);
      c.x[4].fill_(beta);
      expect_right(c);
    }
    SCOPED_TRACE(::testing::Message() << "head size " << size << ", mixed");
    auto mixed = make({300, 65}, size, 11);
    mixed.x[4].mul_(2).masked_fill_(at::rand_like(mixed.x[4]) < 0.3, 0.0);
    expect_right(mixed);
  }
}

TEST_P(GatedDeltaKernels, ZeroAndEqualKeys) {
  for (const std::int64_t size : {64, 128}) {
    SCOPED_TRACE(size);
    auto zero = make({150}, size, 12);
    zero.x[1].zero_();
    expect_right(zero);
    auto equal = make({150}, size, 13);
    equal.x[1] = equal.x[1].narrow(0, 0, 1).expand_as(equal.x[1]).contiguous();
    equal.x[3].mul_(0.1);
    // The state is the sum of u_t k^T over one and the same k, and these u_t cancel: the rounding of U to bf16, as an
    // operand of the tensor cores, is large against what remains.
    expect_right(equal, 2e-2);
    // With beta > 1 errors grow from row to row: finite is all that can be asked.
    equal.x[4].add_(1);
    const auto y = run(test::stored(equal, GetParam().type));
    EXPECT_TRUE(y.output.isfinite().all().item<bool>());
    EXPECT_TRUE(y.final_state.isfinite().all().item<bool>());
    for (std::size_t i = 0; i < y.gradient.size(); ++i) {
      EXPECT_TRUE(y.gradient[i].isfinite().all().item<bool>()) << "d" << test::kDeltaNames[i];
    }
  }
}

TEST_P(GatedDeltaKernels, GradientsOfOneResultAlone) {
  for (const bool of_state : {false, true}) {
    SCOPED_TRACE(of_state ? "of the final state" : "of the output");
    auto p = test::stored(make({130, 70}, 128, 14), GetParam().type);
    (of_state ? p.d_output : p.d_state).zero_();
    const auto expected = test::reference(p);
    auto local = p.c;
    for (auto& x : local.x) {
      x = x.detach().clone().requires_grad_(true);
    }
    const test::ForcedPath forced(GetParam().path);
    const auto y = test::chunked_rule()(local);
    torch::autograd::backward({of_state ? y.final_state : y.output}, {of_state ? p.d_state : p.d_output});
    for (std::size_t i = of_state ? 1 : 0; i < local.x.size(); ++i) {
      EXPECT_TRUE(test::close(local.x[i].grad(), expected.gradient[i], test::limit_of(GetParam(), 2 + i)))
          << "d" << test::kDeltaNames[i];
    }
  }
}

TEST(GatedDeltaGpu, PathOfACall) {
  HYDRA_NEEDS_CUDA();
  const auto path_of = [](std::int64_t k_size, std::int64_t v_size, at::ScalarType type) {
    const auto p = test::stored(test::delta_case({5}, 1, 1, k_size, v_size, 1, at::kCUDA), type);
    return ops::gated_delta_path(test::tensors_of(p.c));
  };
  EXPECT_NE(path_of(128, 128, at::kBFloat16), ops::GatedDeltaPath::aten);
  EXPECT_EQ(path_of(128, 128, at::kFloat), ops::GatedDeltaPath::portable);
  EXPECT_EQ(path_of(80, 96, at::kBFloat16), ops::GatedDeltaPath::portable);
  EXPECT_EQ(path_of(258, 64, at::kFloat), ops::GatedDeltaPath::aten);
  EXPECT_EQ(path_of(7, 64, at::kFloat), ops::GatedDeltaPath::aten);
  EXPECT_EQ(path_of(64, 64, at::kDouble), ops::GatedDeltaPath::aten);
  const test::ForcedPath forced(ops::GatedDeltaPath::mma);
  EXPECT_THROW(path_of(80, 80, at::kBFloat16), UserError);
}
#endif

}  // namespace
}  // namespace hydra
