// The training loop on tiny random models: what is trained and what is not, invariance under micro-batches,
// identical students, skipped steps.

#include "hydrahead/train/trainer.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <tuple>

#include "hydrahead/base/error.hpp"
#include "hydrahead/model/convert.hpp"
#include "hydrahead/ops/chunked_loss.hpp"
#include "tests/train/support_tiny.hpp"

namespace hydra::train {
namespace {

using test::max_difference;
using test::RandomRows;
using test::rows_of;
using test::run_stage;
using test::RunOptions;
using test::snapshot;
using test::Trace;

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

// Two sizes of micro-batches that must not matter: in fp64 at the usual rate, where only an error of the algorithm
// could show, and in fp32 at a rate at which rounding is not amplified.
TEST(Trainer, MicroBatchesDoNotChangeTheStep) {
  const auto run = [](const Stage& stage, at::ScalarType type, std::int64_t micro_batch) {
    RunOptions options;
    options.micro_batch = micro_batch;
    options.validation = rows_of(RandomRows(10), 5);
    return test::run_ranks(stage, {at::kCPU, type, type}, 1, RandomRows(5), options);
  };
  for (Stage stage : test::tiny_stages(20)) {
    for (const auto& [type, losses, parameters] :
         {std::tuple(at::kDouble, 1e-8, 1e-7), std::tuple(at::kFloat, 1e-6, 1e-5)}) {
      stage.schedule.lr.peak = type == at::kDouble ? 3e-3 : 1e-4;
      const test::StageRun whole = run(stage, type, 4);
      for (const std::int64_t micro_batch : {1, 3}) {
        test::expect_same(whole, run(stage, type, micro_batch), losses, parameters,
                          detail::concat(stage.name, ", ", at::toString(type), ", ", micro_batch, " rows"));
      }
    }
  }
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
