// The engine with frozen attention against the whole model run again with hooks, on qwen3-nano in fp32, and what must
// hold exactly.

#include "hydrahead/select/patching.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "hydrahead/base/error.hpp"
#include "plain_patching.hpp"
#include "tests/support/compare.hpp"

namespace hydra::select {
namespace {

const std::filesystem::path fixtures = HYDRA_FIXTURES;
using test::PlainRun;

using Example = data::CounterfactualPair;

// A sequence in which some tokens in the middle are replaced. Of the answer's eight tokens four are read out.
Example example(std::int64_t vocabulary, std::uint64_t seed) {
  Example made;
  made.answer_size = 8;
  made.rows = {53, 54, 56, 59};
  made.answer = {5, 77, 130, 900};
  made.distractor = {1200, 41, 9, 333};
  const at::Tensor ids = at::randint(vocabulary, {64}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kInt);
  made.clean = {ids.const_data_ptr<std::int32_t>(), ids.const_data_ptr<std::int32_t>() + 60};
  made.corrupt = made.clean;
  for (std::int64_t i = 0; i < 4; ++i) {
    made.corrupt[20 + i] = ids.const_data_ptr<std::int32_t>()[60 + i];
  }
  return made;
}

// Everything of one pair on one teacher.
class Patching : public ::testing::Test {
 protected:
  explicit Patching(const char* name = "qwen3-nano", std::uint64_t seed = 1)
      : teacher(model::load_model(fixtures / name, {})), sample(example(teacher.config.base.vocab_size, seed)) {}

  static at::Tensor rows_of(const at::Tensor& x, const Readout& readout) { return x.index_select(0, readout.rows); }
  double plain_margin(const PlainRun& run) const {
    double sum = 0, weights = 0;
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      const at::Tensor row =
          metric == Metric::prob ? run.logits[sample.rows[i]].softmax(-1) : run.logits[sample.rows[i]];
      sum += std::pow(0.9, static_cast<double>(sample.rows[i] - 52)) *
             (row[sample.answer[i]] - row[sample.distractor[i]]).item<double>();
    }
    for (int j = 0; j < 8; ++j) {
      weights += std::pow(0.9, j);
    }
    return sum / weights;
  }
  void prepare() {
    readout = make_readout(sample, 0.9, metric, at::kCPU);
    base = capture_run(teacher, sample.clean);
    source = capture_run(teacher, sample.corrupt);
    base_margin = margin(teacher, readout, rows_of(base.hidden.back(), readout)).item<double>();
    source_margin = margin(teacher, readout, rows_of(source.hidden.back(), readout)).item<double>();
  }
  PatchedPair pair() const { return {base, source, readout, base_margin, source_margin}; }
  std::int64_t layers() const { return teacher.config.base.layers; }
  std::int64_t heads() const { return teacher.config.base.heads; }
  double effect(double m) const { return (base_margin - m) / (base_margin - source_margin); }

  at::Tensor plain_receivers() const {
    const PlainRun clean = test::plain_run(teacher, sample.clean), corrupt = test::plain_run(teacher, sample.corrupt);
    at::Tensor effects = at::zeros({layers(), heads()}, at::kDouble);
    for (std::int64_t l = 0; l < layers(); ++l) {
      for (std::int64_t h = 0; h < heads(); ++h) {
        const PlainRun run =
            test::plain_run(teacher, sample.clean, [&](std::int64_t layer, const at::Tensor&, const at::Tensor& own) {
              at::Tensor used = layer < l ? own : clean.heads[layer].clone();
              if (layer == l) {
                used.select(1, h).copy_(corrupt.heads[layer].select(1, h));
              }
              return used;
            });
        effects[l][h] = effect(plain_margin(run));
      }
    }
    return effects;
  }

  // Path patching in three runs a sender, with nothing shared (IOI, section 3.1; method.md 3.3).
  at::Tensor plain_senders(const at::Tensor& receivers, bool q, bool k, bool v) const {
    const PlainRun clean = test::plain_run(teacher, sample.clean), corrupt = test::plain_run(teacher, sample.corrupt);
    at::Tensor effects = at::zeros({layers(), heads()}, at::kDouble);
    const auto rows = ops::make_sequences({static_cast<std::int64_t>(sample.clean.size())}, at::kCPU);
    const auto tables = model::rotary_tables(teacher, rows);
    for (std::int64_t l = 0; l < layers(); ++l) {
      for (std::int64_t h = 0; h < heads(); ++h) {
        const PlainRun sent =
            test::plain_run(teacher, sample.clean, [&](std::int64_t layer, const at::Tensor&, const at::Tensor&) {
              at::Tensor used = clean.heads[layer].clone();
              if (layer == l) {
                used.select(1, h).copy_(corrupt.heads[layer].select(1, h));
              }
              return used;
            });
        const PlainRun received =
            test::plain_run(teacher, sample.clean, [&](std::int64_t layer, const at::Tensor&, const at::Tensor&) {
              at::Tensor used = clean.heads[layer].clone();
              if (layer > l) {
                const at::Tensor changed = mixed_heads(layer, clean.inputs[layer], sent.inputs[layer], q, k, v, tables);
                for (std::int64_t r = 0; r < heads(); ++r) {
                  for (const std::int64_t row : sample.rows) {
                    if (receivers[layer][r].item<bool>()) {
                      used[row][r].copy_(changed[row][r]);
                    }
                  }
                }
              }
              return used;
            });
        effects[l][h] = effect(plain_margin(received));
      }
    }
    return effects;
  }

  // O_h with queries, keys and values each of the clean or of the sent input, by the whole attention matrix.
  at::Tensor mixed_heads(std::int64_t layer, const at::Tensor& clean, const at::Tensor& sent, bool q, bool k, bool v,
                         const model::RotaryTables& tables) const {
    const auto& config = teacher.config.base;
    const auto& weights = teacher.layers[layer].teacher;
    const auto project = [&](const at::Tensor& x, const at::Tensor& weight) {
      return at::matmul(x, weight.t()).view({x.size(0), -1, config.head_dim});
    };
    const auto rotated = [&](const at::Tensor& x, const at::Tensor& norm) {
      return ops::rotate(ops::rms_norm(x, norm, config.rms_norm_eps), tables.cos, tables.sin);
    };
    const at::Tensor queries = rotated(project(q ? sent : clean, weights.q), weights.q_norm);
    const at::Tensor keys = rotated(project(k ? sent : clean, weights.k), weights.k_norm);
    const at::Tensor values = project(v ? sent : clean, weights.v);
    const auto shared = [&](const at::Tensor& x) { return x.repeat_interleave(config.group_size(), 1); };
    const at::Tensor scores = at::einsum("ihd,jhd->hij", {queries, shared(keys)}) / std::sqrt(config.head_dim);
    const at::Tensor hidden = at::ones({clean.size(0), clean.size(0)}, at::kBool).triu(1);
    return at::einsum("hij,jhd->ihd", {scores.masked_fill(hidden, -INFINITY).softmax(-1), shared(values)});
  }

  model::Model teacher;
  Example sample;
  Metric metric = Metric::logit_diff;
  Readout readout;
  CapturedRun base, source;
  double base_margin = 0, source_margin = 0;
};

TEST_F(Patching, MarginsAreThoseOfTheLogits) {
  for (const Metric kind : {Metric::logit_diff, Metric::prob}) {
    metric = kind;
    prepare();
    EXPECT_NEAR(base_margin, plain_margin(test::plain_run(teacher, sample.clean)), 2e-5);
    EXPECT_NEAR(source_margin, plain_margin(test::plain_run(teacher, sample.corrupt)), 2e-5);
    EXPECT_GT(std::abs(base_margin - source_margin), metric == Metric::prob ? 1e-6 : 1e-2);
  }
}

TEST_F(Patching, ReceiversAgreeWithThePlainMethod) {
  prepare();
  const at::Tensor expected = plain_receivers();
  EXPECT_GT(expected.abs().max().item<double>(), 0.01);
  EXPECT_LT((receiver_effects(teacher, pair()) - expected).abs().max().item<double>(), 1e-5);
}

TEST_F(Patching, SendersAgreeWithThePlainMethod) {
  prepare();
  at::Tensor receivers = at::rand({layers(), heads()}, at::make_generator<at::CPUGeneratorImpl>(3)) < 0.5;
  receivers[layers() - 1].fill_(true);
  using enum SenderPath;
  struct Case {
    std::vector<SenderPath> paths;
    bool q, k, v;
  };
  for (const Case& tried :
       {Case{{q, k, v}, true, true, true}, Case{{v}, false, false, true}, Case{{q, k}, true, true, false}}) {
    const auto changes = sender_changes(teacher, pair(), tried.paths);
    const at::Tensor expected = plain_senders(receivers, tried.q, tried.k, tried.v);
    EXPECT_GT(expected.abs().max().item<double>(), 1e-3);
    EXPECT_LT((sender_effects(teacher, pair(), changes, receivers) - expected).abs().max().item<double>(), 1e-5);
  }
  const auto changes = sender_changes(teacher, pair(), {q, k, v});
  EXPECT_EQ(sender_effects(teacher, pair(), changes, at::zeros_like(receivers)).abs().max().item<double>(), 0.0);
}

TEST_F(Patching, PatchOfEverythingIsOne) {
  prepare();
  std::vector<LayerChange> changes;
  for (std::int64_t layer = 0; layer < layers(); ++layer) {
    changes.push_back(
        {0, (source.attention[layer] - base.attention[layer]).index_select(0, readout.rows).unsqueeze(0)});
  }
  EXPECT_NEAR(effect(frozen_margins(teacher, base, readout, changes).item<double>()), 1.0, 1e-5);
}

TEST_F(Patching, NullPatchIsExactlyZero) {
  prepare();
  const double other = source_margin;
  source = capture_run(teacher, sample.clean);
  const PatchedPair null{base, source, readout, base_margin, other};
  EXPECT_EQ(receiver_effects(teacher, null).abs().max().item<double>(), 0.0);
  EXPECT_THROW(sender_changes(teacher, null, {SenderPath::q}), UserError);
}

TEST_F(Patching, HeadWithoutOutputScoresExactlyZero) {
  const std::int64_t d = teacher.config.base.head_dim;
  teacher.layers[2].teacher.o.slice(1, d, 2 * d).zero_();  // head 1 is not read
  teacher.layers[4].teacher.v.slice(0, 0, d).zero_();      // KV group 0 has nothing to say
  prepare();
  const at::Tensor received = receiver_effects(teacher, pair());
  const auto changes = sender_changes(teacher, pair(), {SenderPath::q, SenderPath::k, SenderPath::v});
  const at::Tensor sent = sender_effects(teacher, pair(), changes, at::ones({layers(), heads()}, at::kBool));
  for (const at::Tensor& effects : {received, sent}) {
    EXPECT_EQ(effects[2][1].item<double>(), 0.0);
    EXPECT_NE(effects[2][0].item<double>(), 0.0);
    for (std::int64_t h = 0; h < heads(); ++h) {
      EXPECT_EQ(effects[4][h].item<double>() == 0.0, h < teacher.config.base.group_size()) << h;
    }
  }
}

TEST_F(Patching, DenoisingPutsCleanOutputsIntoTheCorruptRun) {
  prepare();
  const PatchedPair reverse{source, base, readout, source_margin, base_margin};
  const at::Tensor expected = [&] {
    std::swap(sample.clean, sample.corrupt);
    std::swap(base_margin, source_margin);
    return plain_receivers();
  }();
  EXPECT_LT((receiver_effects(teacher, reverse) - expected).abs().max().item<double>(), 1e-5);
}

// Another shape: an untied head and four query heads a KV head.
class PatchingMicro : public Patching {
 protected:
  PatchingMicro() : Patching("qwen3-micro-untied", 2) {
    for (auto* tokens : {&sample.answer, &sample.distractor}) {
      for (auto& token : *tokens) {
        token %= static_cast<std::int32_t>(teacher.config.base.vocab_size);
      }
    }
  }
};

TEST_F(PatchingMicro, AgreesWithThePlainMethod) {
  prepare();
  EXPECT_LT((receiver_effects(teacher, pair()) - plain_receivers()).abs().max().item<double>(), 1e-4);
  const at::Tensor receivers = at::ones({layers(), heads()}, at::kBool);
  const auto changes = sender_changes(teacher, pair(), {SenderPath::q, SenderPath::k, SenderPath::v});
  EXPECT_LT((sender_effects(teacher, pair(), changes, receivers) - plain_senders(receivers, true, true, true))
                .abs()
                .max()
                .item<double>(),
            1e-4);
}

}  // namespace
}  // namespace hydra::select
