// The chunked gated delta rule against the per-row recurrence in fp64: values, every gradient, boundaries, extremes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "hydrahead/base/error.hpp"
#include "src/ops/gated_delta_blocks.hpp"
#include "tests/ops/gated_delta_cases.hpp"
#include "tests/support/compare.hpp"

namespace hydra {
namespace {

using test::close;
using test::DeltaCase;

void expect_equal_to_recurrence(const DeltaCase& c, const test::DeltaRule& rule = test::chunked_rule(),
                                double value_tolerance = 1e-10, double gradient_tolerance = 1e-9) {
  const auto d_output = at::randn(c.x[2].sizes(), c.x[2].options());
  const auto d_state =
      at::randn({c.sequences.count(), c.x[2].size(1), c.x[2].size(2), c.x[0].size(2)}, c.x[2].options());
  const auto actual = test::run_delta(rule, c, d_output, d_state);
  const auto expected = test::run_delta(test::recurrent_rule(), c, d_output, d_state);
  EXPECT_TRUE(close(actual.output, expected.output, value_tolerance));
  EXPECT_TRUE(close(actual.final_state, expected.final_state, value_tolerance));
  for (std::size_t i = 0; i < expected.gradient.size(); ++i) {
    if (c.x[i].defined()) {
      EXPECT_TRUE(close(actual.gradient[i], expected.gradient[i], gradient_tolerance)) << "d" << test::kDeltaNames[i];
    }
  }
}

TEST(GatedDelta, EqualsTheRecurrenceAtEveryLength) {
  for (const std::int64_t length : {1, 2, 63, 64, 65, 127, 128, 129, 300, 1021}) {
    SCOPED_TRACE(length);
    expect_equal_to_recurrence(test::delta_case({length}, 2, 2, 16, 16, 1));
  }
}

TEST(GatedDelta, EqualsTheRecurrenceForUnequalHeadSizesAndSharedKeyHeads) {
  expect_equal_to_recurrence(test::delta_case({130, 64}, 2, 2, 64, 32, 2));
  expect_equal_to_recurrence(test::delta_case({70}, 2, 6, 8, 12, 3));
  expect_equal_to_recurrence(test::delta_case({128, 128}, 1, 3, 8, 12, 3));
}

TEST(GatedDelta, PackedSequencesOfUnequalLengthsEqualTheRecurrence) {
  expect_equal_to_recurrence(test::delta_case({5, 300, 64, 1, 129, 63, 128}, 2, 2, 16, 8, 4));
  expect_equal_to_recurrence(test::delta_case({192, 192, 192}, 2, 2, 16, 8, 4));
}

TEST(GatedDelta, WithoutInitialState) {
  auto c = test::delta_case({100, 40}, 2, 2, 16, 8, 5);
  c.x[5] = at::Tensor();
  expect_equal_to_recurrence(c);
}

TEST(GatedDelta, BlocksOfAnySizeGiveTheSameResult) {
  for (const std::int64_t block_chunks : {1, 2, 3, 5}) {
    SCOPED_TRACE(block_chunks);
    const auto rule = [block_chunks](const DeltaCase& c) {
      return ops::gated_delta_in_blocks(c.x[0], c.x[1], c.x[2], c.x[3], c.x[4], c.scale, c.sequences, c.x[5], true,
                                        block_chunks);
    };
    expect_equal_to_recurrence(test::delta_case({5, 300, 64, 1, 129}, 2, 4, 16, 8, 6), rule);
    expect_equal_to_recurrence(test::delta_case({256, 256}, 2, 2, 16, 8, 6), rule);
  }
}

TEST(GatedDelta, ExtremeGates) {
  for (const double g : {0.0, -100.0, -1e-6}) {
    SCOPED_TRACE(g);
    auto c = test::delta_case({150}, 2, 2, 16, 16, 7);
    c.x[3].fill_(g);
    expect_equal_to_recurrence(c);
  }
  auto mixed = test::delta_case({200}, 2, 2, 16, 16, 8);
  mixed.x[3].masked_fill_(at::rand(mixed.x[3].sizes()) < 0.3, 0.0);
  mixed.x[3].masked_fill_(at::rand(mixed.x[3].sizes()) < 0.1, -100.0);
  expect_equal_to_recurrence(mixed);
}

TEST(GatedDelta, ExtremeBetas) {
  for (const double beta : {0.0, 1.0, 2.0}) {
    SCOPED_TRACE(beta);
    auto c = test::delta_case({150}, 2, 2, 16, 16, 9);
    c.x[4].fill_(beta);
    expect_equal_to_recurrence(c);
  }
  auto mixed = test::delta_case({150}, 2, 2, 16, 16, 10);
  mixed.x[4].masked_fill_(at::rand(mixed.x[4].sizes()) < 0.5, 0.0);
  expect_equal_to_recurrence(mixed);
}

TEST(GatedDelta, EqualKeysAndZeroKeys) {
  auto equal = test::delta_case({150}, 2, 2, 16, 16, 11);
  equal.x[1] = equal.x[1].narrow(0, 0, 1).expand_as(equal.x[1]).contiguous();
  equal.x[4].fill_(1.0);
  equal.x[3].zero_();
  expect_equal_to_recurrence(equal);
  auto zero = test::delta_case({150}, 2, 2, 16, 16, 12);
  zero.x[1].zero_();
  expect_equal_to_recurrence(zero);
}

// The gradients once more without autograd of anything: central differences along a random direction of each input.
TEST(GatedDelta, GradientsEqualFiniteDifferences) {
  const auto c = test::delta_case({70, 3}, 2, 4, 8, 6, 13);
  const auto d_output = at::randn(c.x[2].sizes(), at::kDouble);
  const auto d_state = at::randn(c.x[5].sizes(), at::kDouble);
  const auto gradients = test::run_delta(test::chunked_rule(), c, d_output, d_state).gradient;
  const auto objective = [&](const DeltaCase& at) {
    const auto y = test::chunked_rule()(at);
    return ((y.output * d_output).sum() + (y.final_state * d_state).sum()).item<double>();
  };
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < c.x.size(); ++i) {
    const auto direction = at::randn(c.x[i].sizes(), at::kDouble);
    auto plus = c;
    auto minus = c;
    plus.x[i] = c.x[i] + kStep * direction;
    minus.x[i] = c.x[i] - kStep * direction;
    const double numeric = (objective(plus) - objective(minus)) / (2 * kStep);
    const double analytic = (gradients[i] * direction).sum().item<double>();
    EXPECT_NEAR(analytic, numeric, 1e-7 * std::max(1.0, std::abs(numeric))) << "d" << test::kDeltaNames[i];
  }
}

TEST(GatedDelta, GradientThroughTheFinalStateAlone) {
  auto c = test::delta_case({90, 20}, 2, 2, 16, 8, 14);
  const auto gradient_of = [&](const test::DeltaRule& rule) {
    auto local = c;
    for (auto& x : local.x) {
      x = x.detach().clone().requires_grad_(true);
    }
    torch::autograd::backward({rule(local).final_state.square().sum()}, {});
    return local.x;
  };
  const auto actual = gradient_of(test::chunked_rule());
  const auto expected = gradient_of(test::recurrent_rule());
  for (std::size_t i = 1; i < actual.size(); ++i) {
    EXPECT_TRUE(close(actual[i].grad(), expected[i].grad(), 1e-9)) << "d" << test::kDeltaNames[i];
  }
  EXPECT_EQ(actual[0].grad().abs().max().item<double>(), 0.0);
}

TEST(GatedDelta, SinglePrecisionErrorIsBelow1e5) {
  for (const bool equal_keys : {false, true}) {
    auto c = test::delta_case({300, 64, 1021}, 3, 3, 64, 64, 15);
    if (equal_keys) {
      c.x[1] = c.x[1].narrow(0, 0, 1).expand_as(c.x[1]).contiguous();
    }
    const auto d_output = at::randn(c.x[2].sizes(), at::kDouble);
    const auto d_state = at::randn(c.x[5].sizes(), at::kDouble);
    auto single = c;
    for (auto& x : single.x) {
      x = x.to(at::kFloat);
    }
    // The same rounded inputs on both sides.
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      c.x[i] = single.x[i].to(at::kDouble);
    }
    const auto d_out_single = d_output.to(at::kFloat);
    const auto d_state_single = d_state.to(at::kFloat);
    const auto actual = test::run_delta(test::chunked_rule(), single, d_out_single, d_state_single);
    const auto expected =
        test::run_delta(test::chunked_rule(), c, d_out_single.to(at::kDouble), d_state_single.to(at::kDouble));
    EXPECT_EQ(actual.final_state.scalar_type(), at::kFloat);
    EXPECT_TRUE(close(actual.output, expected.output, 1e-5));
    EXPECT_TRUE(close(actual.final_state, expected.final_state, 1e-5));
    for (std::size_t i = 0; i < actual.gradient.size(); ++i) {
      EXPECT_TRUE(close(actual.gradient[i], expected.gradient[i], 1e-5)) << "d" << test::kDeltaNames[i];
    }
  }
}

TEST(GatedDelta, NanStaysInItsSequence) {
  const std::vector<std::int64_t> lengths = {70, 64, 130};
  const auto clean = test::delta_case(lengths, 2, 2, 16, 8, 16);
  const auto d_output = at::randn(clean.x[2].sizes(), at::kDouble);
  const auto d_state = at::randn(clean.x[5].sizes(), at::kDouble);
  const auto expected = test::run_delta(test::chunked_rule(), clean, d_output, d_state);
  for (std::size_t i = 0; i < 5; ++i) {
    auto dirty = clean;
    dirty.x[i] = clean.x[i].clone();
    dirty.x[i].narrow(0, 75, 1).fill_(std::numeric_limits<double>::quiet_NaN());  // a row of the second sequence
    const auto actual = test::run_delta(test::chunked_rule(), dirty, d_output, d_state);
    for (const auto& [begin, count] : {std::pair<std::int64_t, std::int64_t>{0, 70}, {134, 130}}) {
      EXPECT_TRUE(test::identical(actual.output.narrow(0, begin, count), expected.output.narrow(0, begin, count)));
      for (std::size_t j = 0; j < 5; ++j) {
        EXPECT_TRUE(
            test::identical(actual.gradient[j].narrow(0, begin, count), expected.gradient[j].narrow(0, begin, count)))
            << "NaN in " << test::kDeltaNames[i] << " reached d" << test::kDeltaNames[j];
      }
    }
    EXPECT_TRUE(actual.output.narrow(0, 75, 59).isnan().any().item<bool>());
  }
}

TEST(GatedDelta, TwoRunsAreBitEqual) {
  const auto c = test::delta_case({300, 77}, 2, 2, 32, 32, 17);
  const auto d_output = at::randn(c.x[2].sizes(), at::kDouble);
  const auto d_state = at::randn(c.x[5].sizes(), at::kDouble);
  const auto first = test::run_delta(test::chunked_rule(), c, d_output, d_state);
  const auto second = test::run_delta(test::chunked_rule(), c, d_output, d_state);
  EXPECT_TRUE(test::identical(first.output, second.output));
  for (std::size_t i = 0; i < first.gradient.size(); ++i) {
    EXPECT_TRUE(test::identical(first.gradient[i], second.gradient[i]));
  }
}

TEST(GatedDelta, StatesChainAcrossCallsAndSteps) {
  const auto c = test::delta_case({200}, 2, 2, 16, 8, 18);
  const auto whole = test::chunked_rule()(c);
  auto state = c.x[5];
  std::vector<at::Tensor> outputs;
  std::int64_t begin = 0;
  for (const std::int64_t length : {64, 1, 30, 8, 97}) {
    const auto part = [&](std::size_t i) { return c.x[i].narrow(0, begin, length); };
    const auto y = ops::gated_delta_step(part(0), part(1), part(2), part(3), part(4), c.scale,
                                         ops::make_sequences({length}, at::kCPU, {begin}), state);
    outputs.push_back(y.output);
    state = y.final_state;
    begin += length;
  }
  EXPECT_TRUE(close(at::cat(outputs), whole.output, 1e-12));
  EXPECT_TRUE(close(state, whole.final_state, 1e-12));
}

TEST(GatedDelta, ChangingOneSequenceLeavesTheOthersUnchanged) {
  const auto c = test::delta_case({70, 64, 130}, 2, 2, 16, 8, 19);
  auto changed = c;
  changed.x[2] = c.x[2].clone();
  changed.x[2].narrow(0, 70, 64).mul_(3);
  const auto a = test::chunked_rule()(c).output;
  const auto b = test::chunked_rule()(changed).output;
  EXPECT_TRUE(test::identical(a.narrow(0, 0, 70), b.narrow(0, 0, 70)));
  EXPECT_TRUE(test::identical(a.narrow(0, 134, 130), b.narrow(0, 134, 130)));
  EXPECT_GT(test::compare(a.narrow(0, 70, 64), b.narrow(0, 70, 64)).relative_l2, 0.1);
}

TEST(GatedDelta, RefusesMisshapenStates) {
  auto c = test::delta_case({10}, 2, 2, 16, 8, 20);
  c.x[5] = c.x[5].transpose(2, 3);
  EXPECT_THROW(test::chunked_rule()(c), Error);
}

}  // namespace
}  // namespace hydra
