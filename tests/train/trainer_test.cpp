// The training loop on tiny random models: what is trained and what is not, invariance under micro-batches and ranks,
// identical students, skipped steps.

#include "hydrahead/train/trainer.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "hydrahead/base/error.hpp"
#include "hydrahead/model/convert.hpp"
#include "hydrahead/ops/chunked_loss.hpp"
#include "tests/train/support_tiny.hpp"

namespace hydra::train {
namespace {

using test::RandomRows;
using test::run_stage;
using test::RunOptions;
using test::snapshot;
using test::Trace;

std::vector<data::Row> rows_of(const data::RowSource& source, std::uint64_t count) {
  std::vector<data::Row> rows;
  for (std::uint64_t i = 0; i < count; ++i) {
    rows.push_back(source.row(i));
  }
  return rows;
}

// The hybrid that computes what the teacher does: all heads FA with RoPE, no gate, no norm, no log scale.
model::Model identical_student(const model::Model& teacher) {
  model::HybridConfig hybrid;
  hybrid.fa.rope = true;
  hybrid.fa.gate = model::FaGate::none;
  hybrid.fa.log_scale.mode = model::LogScaleMode::off;
  hybrid.fusion.mode = model::FusionMode::none;
  hybrid.gdn.init = model::GdnInit::random;
  hybrid.fusion.gamma_init = model::GammaInit::one;
  const model::HeadPlan plan = model::make_plan(teacher.config.base, {{0, 1, 2, 3}, {0, 1, 2, 3}}, "test");
  return model::convert(teacher, plan, hybrid, {}, 0).hybrid;
}

double max_difference(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    largest = std::max(largest, (tensor - b.at(name)).abs().max().item<double>());
  }
  return largest;
}

TEST(Trainer, IdenticalStudentHasZeroLossAndGradient) {
  const auto solo = dist::make_solo_communicator();
  const RandomRows rows(1);
  model::Model teacher = test::tiny_model(false, 7);
  StagesConfig config;
  config.align.emplace().schedule = test::tiny_schedule(1);
  config.distill.emplace().schedule = test::tiny_schedule(1);
  config.distill->ce_weight = 0.0;
  for (const Stage& stage : make_stages(config, model::LogScaleMode::off, 101)) {
    model::Model student = identical_student(teacher);
    const Trace trace = run_stage(stage, student, &teacher, rows, *solo);
    EXPECT_LT(trace.losses[0], 1e-6) << stage.name;
    EXPECT_LT(trace.norms[0], 1e-5) << stage.name;
  }
  // The cross-entropy is the teacher's.
  model::Model student = identical_student(teacher);
  LongContextStage long_context;
  long_context.schedule = test::tiny_schedule(1);
  const Trace trace =
      run_stage(long_context_stage(long_context, model::LogScaleMode::off), student, nullptr, rows, *solo);
  double sum = 0, count = 0;
  for (const data::Row& row : rows_of(rows, 4)) {
    const DeviceBatch batch{at::tensor(std::vector<std::int64_t>(row.ids.begin(), row.ids.end())),
                            at::tensor(std::vector<std::int64_t>(row.labels.begin(), row.labels.end())),
                            ops::make_sequences(row.lengths, at::kCPU)};
    const at::Tensor hidden = model::forward_hidden(teacher, batch.ids, batch.sequences);
    const at::Tensor wanted = batch.labels.ge(0).nonzero().squeeze(1);
    sum -= ops::token_logprobs(hidden.index_select(0, wanted), teacher.head, batch.labels.index_select(0, wanted))
               .sum()
               .item<double>();
    count += static_cast<double>(wanted.numel());
  }
  EXPECT_NEAR(trace.losses[0], sum / count, 1e-5);
}

TEST(Trainer, TrainedTensorsMoveAndFrozenOnesAreBitIdentical) {
  const auto solo = dist::make_solo_communicator();
  for (const Stage& stage : test::tiny_stages(20)) {
    model::Model teacher = test::tiny_model(false, 7), student = test::tiny_model(true, 8);
    const auto teacher_before = snapshot(teacher), before = snapshot(student);
    RunOptions options;
    options.optimizer.weight_decay = 0.1;
    const Trace trace = run_stage(stage, student, &teacher, RandomRows(2), *solo, options);
    for (const auto& parts : trace.parts) {
      for (const double part : parts) {
        EXPECT_GT(part, 0.0) << stage.name;
      }
    }
    const auto after = snapshot(student);
    std::set<std::string> listed;
    for (const model::Parameter& parameter : trace.split.trained) {
      EXPECT_FALSE(at::equal(before.at(parameter.name), after.at(parameter.name)))
          << stage.name << " " << parameter.name;
      EXPECT_TRUE(stage.name != "align" || parameter.name.find(".self_attn.") != std::string::npos) << parameter.name;
      listed.insert(parameter.name);
    }
    for (const model::Parameter& parameter : trace.split.frozen) {
      EXPECT_TRUE(at::equal(before.at(parameter.name), after.at(parameter.name)))
          << stage.name << " " << parameter.name;
      listed.insert(parameter.name);
    }
    EXPECT_EQ(listed.size(), after.size());
    EXPECT_EQ(trace.split.frozen.empty(), stage.name != "align");
    EXPECT_EQ(max_difference(teacher_before, snapshot(teacher)), 0.0) << stage.name;
    ASSERT_EQ(trace.saved.size(), 1u);
    EXPECT_TRUE(trace.saved[0].stage_done());
    EXPECT_EQ(trace.saved[0].stage_tokens, 20 * 4 * test::kContext);
  }
}

TEST(Trainer, AMovedFrozenTensorEndsTheStage) {
  const auto solo = dist::make_solo_communicator();
  model::Model teacher = test::tiny_model(false, 7), student = test::tiny_model(true, 8);
  const Stage align = test::tiny_stages(2)[0];
  RunOptions options;
  options.after_step = [&](const checkpoint::RunState&) { student.norm.add_(1e-3); };
  EXPECT_THROW(run_stage(align, student, &teacher, RandomRows(2), *solo, options), Error);
  options.after_step = [&](const checkpoint::RunState&) { teacher.norm.add_(1e-3); };
  EXPECT_THROW(run_stage(align, student, &teacher, RandomRows(2), *solo, options), Error);
}

TEST(Trainer, LossesFallAndRatesFollowTheSchedule) {
  const auto solo = dist::make_solo_communicator();
  for (const Stage& stage : test::tiny_stages(30)) {
    model::Model teacher = test::tiny_model(false, 7), student = test::tiny_model(true, 8);
    // A single row over and over, so that every stage can fit it.
    class OneRow : public data::RowSource {
     public:
      data::Row row(std::uint64_t) const override { return RandomRows(3).row(5); }
    };
    const Trace trace = run_stage(stage, student, &teacher, OneRow(), *solo);
    EXPECT_LT(trace.losses.back(), 0.8 * trace.losses.front()) << stage.name;
    EXPECT_DOUBLE_EQ(trace.rates[0], 1e-3);
    EXPECT_DOUBLE_EQ(trace.rates[2], 3e-3);
    EXPECT_DOUBLE_EQ(trace.rates[29], 1e-4);
  }
}

TEST(Trainer, ValidationReportsTheTrainingLossOfTheSameBatch) {
  const auto solo = dist::make_solo_communicator();
  const RandomRows rows(4);
  for (const Stage& stage : test::tiny_stages(1)) {
    model::Model teacher = test::tiny_model(false, 7), student = test::tiny_model(true, 8);
    const std::vector<data::Row> validation = rows_of(rows, 4);
    const StageJob job{.stage = stage,
                       .student = student,
                       .teacher = &teacher,
                       .rows = rows,
                       .validation = validation,
                       .optimizer = {},
                       .communicator = *solo,
                       .micro_batch = 3,
                       .on_start = {},
                       .on_step = {},
                       .on_validation = {},
                       .save = {}};
    const std::optional<LossReport> report = validate(job);
    const Trace trace = run_stage(stage, student, &teacher, rows, *solo);
    ASSERT_TRUE(report.has_value());
    EXPECT_NEAR(report->loss, trace.losses[0], 1e-5) << stage.name;
    EXPECT_EQ(report->layer_mse.size(), stage.name == "align" ? 2u : 0u);
  }
}

TEST(Trainer, ValidationRunsWhenDueAndAtTheEnd) {
  const auto solo = dist::make_solo_communicator();
  model::Model student = test::tiny_model(true, 8);
  RunOptions options;
  options.validation = rows_of(RandomRows(9), 3);
  options.validate_every = 2;
  options.checkpoint_every = 2;
  const Trace trace = run_stage(test::tiny_stages(5)[2], student, nullptr, RandomRows(4), *solo, options);
  EXPECT_EQ(trace.validations.size(), 3u);  // steps 2, 4 and 5
  ASSERT_EQ(trace.saved.size(), 3u);
  EXPECT_EQ(trace.saved[1].step, 4);
  EXPECT_EQ(trace.saved[1].next_row, 16);
}

struct StageRun {
  Trace trace;
  std::map<std::string, at::Tensor> parameters;
};

// One stage with `ranks` threads; rank 0's results. Every rank has models of its own.
StageRun run_ranks(const Stage& stage, at::ScalarType type, int ranks, std::int64_t micro_batch) {
  StageRun result;
  std::vector<std::map<std::string, at::Tensor>> all(static_cast<std::size_t>(ranks));
  const auto body = [&](dist::Communicator& communicator) {
    model::Model teacher = test::tiny_model(false, 7, type), student = test::tiny_model(true, 8, type);
    RunOptions options;
    options.micro_batch = micro_batch;
    options.validation = rows_of(RandomRows(10), 5);
    Trace trace = run_stage(stage, student, &teacher, RandomRows(5), communicator, options);
    all[static_cast<std::size_t>(communicator.rank())] = snapshot(student);
    if (communicator.rank() == 0) {
      result.trace = trace;
    }
  };
  if (ranks == 1) {
    body(*dist::make_solo_communicator());
  } else {
    dist::run_thread_ranks(ranks, body);
  }
  result.parameters = all[0];
  for (const auto& parameters : all) {
    EXPECT_EQ(max_difference(all[0], parameters), 0.0);
  }
  return result;
}

// Largest differences of losses (validation included) and of parameters after the stage.
void expect_same(const StageRun& a, const StageRun& b, double losses, double parameters, const std::string& what) {
  ASSERT_EQ(a.trace.losses.size(), b.trace.losses.size());
  for (std::size_t i = 0; i < a.trace.losses.size(); ++i) {
    EXPECT_NEAR(a.trace.losses[i], b.trace.losses[i], losses * std::max(1.0, a.trace.losses[i]))
        << what << ", step " << i + 1;
  }
  EXPECT_NEAR(a.trace.validations.back().loss, b.trace.validations.back().loss,
              losses * a.trace.validations.back().loss)
      << what;
  EXPECT_LT(max_difference(a.parameters, b.parameters), parameters) << what;
}

// Two settings that must not matter, against one rank with the whole batch in one piece: in fp64 at the usual rate,
// where only an error of the algorithm could show, and in fp32 at a rate at which rounding is not amplified.
void expect_invariance(int ranks, std::int64_t micro_batch) {
  for (Stage stage : test::tiny_stages(20)) {
    const std::string what = detail::concat(stage.name, ", ", ranks, " ranks, ", micro_batch, " rows");
    expect_same(run_ranks(stage, at::kDouble, 1, 4), run_ranks(stage, at::kDouble, ranks, micro_batch), 1e-8, 1e-7,
                what + ", fp64");
    stage.schedule.lr.peak = 1e-4;
    expect_same(run_ranks(stage, at::kFloat, 1, 4), run_ranks(stage, at::kFloat, ranks, micro_batch), 1e-6, 1e-5,
                what + ", fp32");
  }
}

TEST(Trainer, MicroBatchesDoNotChangeTheStep) {
  expect_invariance(1, 1);
  expect_invariance(1, 3);
}

TEST(Trainer, RanksDoNotChangeTheStep) {
  expect_invariance(2, 2);
  expect_invariance(3, 1);  // 4 rows do not divide evenly
}

TEST(Trainer, RowsWithoutCountedPositionsCostNothing) {
  class Sparse : public data::RowSource {
   public:
    data::Row row(std::uint64_t index) const override {
      if (index % 4 == 1) {
        return RandomRows(6).row(index);
      }
      return {.ids = {1}, .labels = {-1}, .lengths = {1}, .documents = {"one token"}};
    }
  };
  const auto solo = dist::make_solo_communicator();
  model::Model student = test::tiny_model(true, 8), alone = test::tiny_model(true, 8);
  RunOptions options;
  options.micro_batch = 1;
  const Trace sparse = run_stage(test::tiny_stages(3, 4)[2], student, nullptr, Sparse(), *solo, options);
  class Dense : public data::RowSource {
   public:
    data::Row row(std::uint64_t index) const override { return RandomRows(6).row(4 * index + 1); }
  };
  const Trace dense = run_stage(test::tiny_stages(3, 1)[2], alone, nullptr, Dense(), *solo, options);
  EXPECT_EQ(sparse.losses, dense.losses);
  EXPECT_EQ(max_difference(snapshot(student), snapshot(alone)), 0.0);
}

// The gradients of one rank become NaN in step 2: no rank updates in that step, all go on with the next.
TEST(Trainer, NonFiniteGradientsOfOneRankSkipTheStepOnAll) {
  dist::run_thread_ranks(2, [](dist::Communicator& communicator) {
    model::Model student = test::tiny_model(true, 8);
    Stage stage = test::tiny_stages(3)[2];
    int calls = 0;
    stage.loss = [&, loss = stage.loss](const model::Model& model, const model::Model* teacher,
                                        const DeviceBatch& batch, double divisor, bool backward) {
      const StageLoss result = loss(model, teacher, batch, divisor, backward);
      if (++calls == 2 && communicator.rank() == 1) {
        at::Tensor gradient = student.norm.mutable_grad();
        gradient[0] = std::numeric_limits<float>::quiet_NaN();
      }
      return result;
    };
    std::vector<at::Tensor> norms;
    RunOptions options;
    options.after_step = [&](const checkpoint::RunState& at) {
      norms.push_back(student.norm.detach().clone());
      EXPECT_EQ(at.skipped_steps, at.step == 2 ? 1 : 0);
    };
    run_stage(stage, student, nullptr, RandomRows(5), communicator, options);
    EXPECT_TRUE(at::equal(norms[0], norms[1]));
    EXPECT_FALSE(at::equal(norms[1], norms[2]));
    EXPECT_TRUE(norms[2].isfinite().all().item<bool>());
  });
}

TEST(Trainer, TooManyNonFiniteStepsEndTheRunWithWeightsIntact) {
  const auto solo = dist::make_solo_communicator();
  model::Model student = test::tiny_model(true, 8);
  Stage stage = test::tiny_stages(50)[2];
  stage.loss = [&, loss = stage.loss](const model::Model& model, const model::Model* teacher, const DeviceBatch& batch,
                                      double divisor, bool backward) {
    const StageLoss result = loss(model, teacher, batch, divisor, backward);
    at::Tensor gradient = student.norm.mutable_grad();
    gradient[0] = std::numeric_limits<float>::infinity();
    return result;
  };
  const auto before = snapshot(student);
  int steps = 0;
  RunOptions options;
  options.after_step = [&](const checkpoint::RunState&) { ++steps; };
  EXPECT_THROW(run_stage(stage, student, nullptr, RandomRows(5), *solo, options), Error);
  EXPECT_EQ(steps, 9);  // the tenth ends it
  EXPECT_EQ(max_difference(before, snapshot(student)), 0.0);
}

}  // namespace
}  // namespace hydra::train
