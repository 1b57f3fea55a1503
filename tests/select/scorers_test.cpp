// Attribution against finite differences, ablation against the whole model without the head, retrieval scores against
// the whole attention matrix: on qwen3-nano in fp64.

#include "hydrahead/select/scorers.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "plain_patching.hpp"

namespace hydra::select {
namespace {

const std::filesystem::path fixtures = HYDRA_FIXTURES;

class Scorers : public ::testing::Test {
 protected:
  Scorers()
      : teacher(model::load_model(fixtures / "qwen3-nano", {at::kCPU, at::kDouble, at::kDouble})),
        clean(40),
        readout(read_out({35, 38}, {100, 200}, {300, 400})) {
    for (std::size_t i = 0; i < clean.size(); ++i) {
      clean[i] = static_cast<std::int32_t>(7 + 91 * i % 4000);
    }
    corrupt = clean;
    corrupt[12] = 3000;
    corrupt[13] = 17;
    base = capture_run(teacher, clean);
    source = capture_run(teacher, corrupt);
    base_margin = margin_of(test::plain_run(teacher, clean).logits);
    source_margin = margin_of(test::plain_run(teacher, corrupt).logits);
  }
  // Rows among the last five of 40, an answer of as many tokens.
  static Readout read_out(const std::vector<std::int64_t>& rows, const std::vector<std::int32_t>& answer,
                          const std::vector<std::int32_t>& distractor) {
    data::CounterfactualPair pair;
    pair.clean.resize(40);
    pair.answer_size = 5;
    pair.rows = rows;
    pair.answer = answer;
    pair.distractor = distractor;
    return make_readout(pair, 0.9, Metric::logit_diff, at::kCPU);
  }
  double margin_of(const at::Tensor& logits) const {
    const at::Tensor sum = (logits[35][100] - logits[35][300]) + 0.729 * (logits[38][200] - logits[38][400]);
    return sum.item<double>() / (1 + 0.9 + 0.81 + 0.729 + 0.6561);
  }
  // m when O_lh is replaced by what `change` makes of it and of the corrupt run's, everything after computed again.
  double margin_with(std::int64_t l, std::int64_t h,
                     const std::function<at::Tensor(const at::Tensor& own, const at::Tensor& other)>& change) const {
    const auto run =
        test::plain_run(teacher, clean, [&](std::int64_t layer, const at::Tensor&, const at::Tensor& heads) {
          at::Tensor used = heads.clone();
          if (layer == l) {
            used.select(1, h).copy_(change(heads.select(1, h), source.heads[layer].select(1, h)));
          }
          return used;
        });
    return margin_of(run.logits);
  }
  PatchedPair pair() const { return {base, source, readout, base_margin, source_margin}; }
  double effect(double m) const { return (base_margin - m) / (base_margin - source_margin); }
  template <class F>
  void expect_everywhere(const at::Tensor& found, double tolerance, const F& expected) const {
    double largest = 0;
    for (std::int64_t l = 0; l < found.size(0); ++l) {
      for (std::int64_t h = 0; h < found.size(1); ++h) {
        const double value = expected(l, h);
        largest = std::max(largest, std::abs(value));
        EXPECT_NEAR(found[l][h].template item<double>(), value, tolerance) << "layer " << l << " head " << h;
      }
    }
    EXPECT_GT(largest, 1e-2);
  }

  model::Model teacher;
  std::vector<std::int32_t> clean, corrupt;
  Readout readout;
  CapturedRun base, source;
  double base_margin = 0, source_margin = 0;
};

TEST_F(Scorers, AttributionIsTheDerivative) {
  constexpr double step = 1e-4;
  expect_everywhere(attribution(teacher, pair()), 1e-5, [&](std::int64_t l, std::int64_t h) {
    const auto along = [&](double t) {
      return effect(
          margin_with(l, h, [&](const at::Tensor& own, const at::Tensor& other) { return own + t * (other - own); }));
    };
    return (along(step) - along(-step)) / (2 * step);
  });
}

TEST_F(Scorers, AblationRunsTheModelWithoutTheHead) {
  expect_everywhere(ablation(teacher, pair(), Ablation::zero), 1e-8, [&](std::int64_t l, std::int64_t h) {
    return effect(margin_with(l, h, [](const at::Tensor& own, const at::Tensor&) { return at::zeros_like(own); }));
  });
  expect_everywhere(ablation(teacher, pair(), Ablation::mean), 1e-8, [&](std::int64_t l, std::int64_t h) {
    return effect(
        margin_with(l, h, [](const at::Tensor& own, const at::Tensor&) { return own.mean(0, true).expand_as(own); }));
  });
}

TEST_F(Scorers, RetrievalScoreCountsTopKeysThatHoldTheAnswer) {
  // Rows that say their answer: the model's own next tokens; the third row's answer is not what the model says.
  const at::Tensor said = test::plain_run(teacher, clean).logits.argmax(-1);
  const std::vector<std::int64_t> rows = {35, 36, 38};
  std::vector<std::int32_t> answer;
  for (const std::int64_t row : rows) {
    answer.push_back(said[row].item<std::int32_t>());
  }
  answer[2] = answer[2] == 5 ? 6 : 5;
  const Readout counted = read_out(rows, answer, {300, 400, 500});
  const auto& config = teacher.config.base;
  double total = 0;
  for (const std::int64_t place : {0L, 1L, 20L, 30L}) {  // the sink, and others
    const std::vector<std::int64_t> sources = {place, place + 1, place + 2};
    const at::Tensor found = retrieval_score(teacher, base, counted, sources);
    for (std::int64_t l = 0; l < config.layers; ++l) {
      const auto& weights = teacher.layers[l].teacher;
      const at::Tensor x = ops::rms_norm(base.hidden[l], teacher.layers[l].input_norm, config.rms_norm_eps);
      const auto rotated = [&](const at::Tensor& weight, const at::Tensor& norm) {
        return ops::rotate(ops::rms_norm(at::matmul(x, weight.t()).view({40, -1, config.head_dim}), norm, 1e-6),
                           base.tables.cos, base.tables.sin);
      };
      const at::Tensor q = rotated(weights.q, weights.q_norm), k = rotated(weights.k, weights.k_norm);
      for (std::int64_t h = 0; h < config.heads; ++h) {
        double hits = 0;
        for (std::size_t j = 0; j < 2; ++j) {  // the third is not said
          const at::Tensor scores =
              at::matmul(k.slice(0, 0, rows[j] + 1).select(1, h / config.group_size()), q[rows[j]][h]);
          const auto top = scores.argmax().item<std::int64_t>();
          for (std::size_t i = 0; i < sources.size(); ++i) {
            if (top == sources[i] && answer[i] == answer[j]) {
              ++hits;
            }
          }
        }
        EXPECT_DOUBLE_EQ(found[l][h].item<double>(), hits / 3) << l << " " << h;
        total += hits;
      }
    }
  }
  EXPECT_GT(total, 0);
}

// Where the prompt cuts the answer into fewer tokens, one place stands for several: each of them counts there.
TEST_F(Scorers, RetrievalScoreTakesAPlaceThatSeveralTokensShare) {
  const at::Tensor said = test::plain_run(teacher, clean).logits.argmax(-1);
  const auto token = [&](std::int64_t row) { return said[row].item<std::int32_t>(); };
  std::vector<std::int64_t> rows = {35, 36};
  while (rows[1] < 39 && token(rows[1]) == token(35)) {
    ++rows[1];
  }
  const std::vector<std::int32_t> answer = {token(rows[0]), token(rows[1])};
  ASSERT_NE(answer[0], answer[1]);
  const Readout counted = read_out(rows, answer, {300, 400});
  std::int64_t both = 0;
  for (const std::int64_t place : {0L, 1L, 20L, 30L}) {
    // Each row by itself has the place alone.
    at::Tensor expected = at::zeros({teacher.config.base.layers, teacher.config.base.heads}, at::kDouble);
    for (std::size_t i = 0; i < 2; ++i) {
      expected += retrieval_score(teacher, base, read_out({rows[i]}, {answer[i]}, {300}), {place}) / 2;
    }
    EXPECT_TRUE(at::equal(retrieval_score(teacher, base, counted, {place, place}), expected)) << place;
    both += expected.eq(1).sum().item<std::int64_t>();
  }
  EXPECT_GT(both, 0);  // a head that one of the two tokens alone would not give its score
}

}  // namespace
}  // namespace hydra::select
