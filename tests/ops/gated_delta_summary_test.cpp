// Summaries of a sequence's parts, joined, against one pass over the sequence.
#include <gtest/gtest.h>

#include "tests/ops/gated_delta_cases.hpp"
#include "tests/support/compare.hpp"

namespace hydra {
namespace {

using test::close;
using test::DeltaCase;

ops::GatedDeltaSummary summary_of(const DeltaCase& c, std::int64_t first, std::int64_t rows) {
  const auto part = [&](int i) { return c.x[i].narrow(0, first, rows); };
  return ops::gated_delta_summary(part(1), part(2), part(3), part(4), ops::make_sequences({rows}, at::kCPU));
}

TEST(GatedDeltaSummary, PartsJoinToTheWholeSequence) {
  for (const std::int64_t cut : {1, 63, 64, 100, 256, 299}) {
    SCOPED_TRACE(cut);
    const auto c = test::delta_case({300}, 2, 4, 16, 8, 21);  // more value heads, V unlike K
    const auto whole = test::run_delta(test::recurrent_rule(), c, at::zeros_like(c.x[2]), at::zeros_like(c.x[5]));
    auto state = c.x[5];
    for (const auto& [first, rows] : {std::pair(std::int64_t{0}, cut), std::pair(cut, 300 - cut)}) {
      const auto summary = summary_of(c, first, rows);
      state = at::matmul(state, summary.transition) + summary.state;
    }
    EXPECT_TRUE(close(state, whole.final_state, 1e-10));
  }
}

TEST(GatedDeltaSummary, OfPackedSequencesIsThatOfEach) {
  const std::vector<std::int64_t> lengths{5, 130, 1, 64};
  const auto c = test::delta_case(lengths, 2, 2, 16, 16, 22);
  const auto all = ops::gated_delta_summary(c.x[1], c.x[2], c.x[3], c.x[4], c.sequences);
  for (std::int64_t s = 0; s < c.sequences.count(); ++s) {
    SCOPED_TRACE(s);
    const auto one = summary_of(c, c.sequences.offsets[s], c.sequences.length(s));
    EXPECT_TRUE(close(all.state[s], one.state[0], 1e-12));
    EXPECT_TRUE(close(all.transition[s], one.transition[0], 1e-12));
    EXPECT_TRUE(close(all.log_decay[s], one.log_decay[0], 1e-12));
  }
}

// Unit keys and beta <= 1: the transition shrinks every vector by at least the decay.
TEST(GatedDeltaSummary, TheDecayBoundsTheTransition) {
  const auto c = test::delta_case({200}, 1, 3, 16, 16, 23);
  const auto summary = summary_of(c, 0, 200);
  for (std::int64_t h = 0; h < 3; ++h) {
    EXPECT_LE(at::linalg_matrix_norm(summary.transition[0][h], 2).item<double>(),
              summary.log_decay[0][h].exp().item<double>() * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace hydra
