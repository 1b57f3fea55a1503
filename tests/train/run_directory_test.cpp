// Which settings may change when a run goes on, and how rows are shared out and cut into micro-batches.

#include "hydrahead/train/run_directory.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/train/bench_step.hpp"
#include "hydrahead/train/memory_estimate.hpp"
#include "hydrahead/train/micro_batch.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/train/support_tiny.hpp"

namespace hydra::train {
namespace {

RunConfig three_stages() {
  RunConfig config;
  config.teacher = "/teacher";
  config.run_dir = "/run";
  config.heads.scores = "/scores.json";  // as read from a file: absolute
  config.stages.align.emplace().schedule.steps = 10;
  config.stages.distill.emplace().schedule.steps = 10;
  config.stages.long_context.emplace().schedule.steps = 10;
  return config;
}

TEST(DecidingSettings, BookkeepingAndLaterStagesMayChange) {
  const RunConfig config = three_stages();
  RunConfig other = config;
  other.run_dir = "/elsewhere";
  other.log.every = 1;
  other.checkpoint.keep = 7;
  other.device = DeviceChoice::cpu;
  other.parallel.data = 8;
  other.stages.align->schedule.micro_batch = 3;
  other.stages.align->schedule.validate_every = 5;
  other.eval.after.clear();
  other.stages.distill->kl_weight = 0.5;
  EXPECT_EQ(deciding_settings(config, "align"), deciding_settings(other, "align"));
  EXPECT_NE(deciding_settings(config, "distill"), deciding_settings(other, "distill"));
  other.stages.align->schedule.lr.peak = 0.5;
  EXPECT_EQ(deciding_settings(config, ""), deciding_settings(other, ""));
  EXPECT_NE(deciding_settings(config, "align"), deciding_settings(other, "align"));
}

TEST(DecidingSettings, WhatDecidesNumbersMayNot) {
  const RunConfig config = three_stages();
  const std::vector<std::function<void(RunConfig&)>> changes{
      [](RunConfig& c) { c.seed = 1; },
      [](RunConfig& c) { c.teacher = "/other"; },
      [](RunConfig& c) { c.precision = Precision::bf16; },
      [](RunConfig& c) { c.heads.fa_ratio = 0.5; },
      [](RunConfig& c) { c.hybrid.gdn.rope = false; },
      [](RunConfig& c) { c.data.sources["books"].weight = 2; },
      [](RunConfig& c) { c.optimizer.weight_decay = 0.1; },
      [](RunConfig& c) { c.stages.align->schedule.global_batch = 5; },
      [](RunConfig& c) { c.stages.align->options.target = AlignTarget::layer; },
      [](RunConfig& c) { c.stages.long_context->schedule.context = 5; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    RunConfig other = config;
    changes[i](other);
    EXPECT_NE(deciding_settings(config, "long_context"), deciding_settings(other, "long_context")) << i;
    EXPECT_FALSE(
        setting_differences(deciding_settings(config, "long_context"), deciding_settings(other, "long_context"))
            .empty())
        << i;
  }
}

TEST(DecidingSettings, DifferencesNameTheKey) {
  const RunConfig config = three_stages();
  RunConfig other = config;
  other.stages.align->schedule.lr.peak = 0.5;
  const auto differences = setting_differences(deciding_settings(config, "align"), deciding_settings(other, "align"));
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0], "stages.align.lr.peak: 0.5, before 0.001");
}

TEST(RunDirectory, OnlyNewOrResumedDirectoriesAreUsed) {
  const hydra::test::TempDir dir;
  RunConfig config = three_stages();
  config.run_dir = dir.path() / "run";
  check_run_directory(config, false, "");
  EXPECT_FALSE(fs::exists(config.run_dir));  // nothing is made
  check_run_directory(config, true, "");     // --resume starts where there is nothing
  fs::create_directories(config.run_dir);
  check_run_directory(config, false, "");
  std::ofstream(config.run_dir / "something") << "x";
  EXPECT_THROW(check_run_directory(config, false, ""), UserError);
  EXPECT_THROW(check_run_directory(config, true, ""), UserError);  // no run
  write_file_atomic(config.run_dir / "config.resolved.yaml", resolved_yaml(config));
  check_run_directory(config, true, "");
  EXPECT_THROW(check_run_directory(config, false, ""), UserError);
  config.seed = 3;
  EXPECT_THROW(check_run_directory(config, true, ""), UserError);
  config.run_dir = dir.path() / "file";
  std::ofstream(config.run_dir) << "x";
  EXPECT_THROW(check_run_directory(config, true, ""), UserError);
}

TEST(MicroBatch, RanksShareTheRowsOfABatch) {
  std::vector<std::uint64_t> all;
  for (int rank = 0; rank < 3; ++rank) {
    for (const std::uint64_t row : rows_of_rank(40, 7, rank, 3)) {
      all.push_back(row);
    }
  }
  EXPECT_EQ(all, (std::vector<std::uint64_t>{40, 43, 46, 41, 44, 42, 45}));
  EXPECT_TRUE(rows_of_rank(40, 2, 2, 3).empty());
}

TEST(MicroBatch, RowsBecomeFlatTensors) {
  const std::vector<data::Row> rows{
      {.ids = {1, 2, 3}, .labels = {2, -1, -1}, .lengths = {2, 1}, .documents = {"a", "b"}},
      {.ids = {4, 5}, .labels = {5, -1}, .lengths = {2}, .documents = {"c"}}};
  const DeviceBatch batch = device_batch(rows, at::kCPU);
  EXPECT_EQ(batch.sequences.offsets, (std::vector<std::int64_t>{0, 2, 3, 5}));
  EXPECT_TRUE(at::equal(batch.ids, at::tensor({1, 2, 3, 4, 5}, at::kLong)));
  EXPECT_TRUE(at::equal(batch.labels, at::tensor({2, -1, -1, 5, -1}, at::kLong)));
}

TEST(MicroBatch, AutoFitsTheMemoryAndCutsEvenly) {
  const model::ModelConfig config = test::tiny_config(true);
  Stage stage = test::tiny_stages(1, 32)[1];
  EXPECT_EQ(choose_micro_batch(config, stage, {optim::Shard::none, 1}, 4, true, 0),
            32);  // 32 rows of 24 tokens: fewer than 4096
  stage.schedule.context = 1024;
  EXPECT_EQ(choose_micro_batch(config, stage, {optim::Shard::none, 1}, 4, true, 0), 4);
  EXPECT_EQ(choose_micro_batch(config, stage, {optim::Shard::none, 8}, 4, true, 0), 4);
  EXPECT_EQ(choose_micro_batch(config, stage, {optim::Shard::none, 12}, 4, true, 0), 3);
  // A device with room for 5 of 8 rows: two micro-batches of 4.
  const std::int64_t five = estimate_memory(config, stage, 5, 2).total();
  EXPECT_EQ(choose_micro_batch(config, stage, {optim::Shard::none, 4}, 2, false, five * 10 / 9 + 1000), 4);
  EXPECT_THROW(choose_micro_batch(config, stage, {optim::Shard::none, 4}, 2, false, 1000), UserError);
  stage.schedule.micro_batch = 6;
  EXPECT_EQ(choose_micro_batch(config, stage, {optim::Shard::none, 4}, 2, false, 1000), 6);
}

TEST(MemoryEstimate, CountsEveryParameter) {
  model::Model student = test::tiny_model(true, 1), teacher = test::tiny_model(false, 1);
  for (const Stage& stage : test::tiny_stages(1)) {
    const ParameterCounts counts = parameter_counts(student.config, stage);
    const TrainableSplit split = split_parameters(student, stage.trains);
    EXPECT_EQ(counts.all, element_count(split.trained) + element_count(split.frozen)) << stage.name;
    EXPECT_EQ(counts.trained, element_count(split.trained)) << stage.name;
    EXPECT_EQ(counts.teacher, stage.needs_teacher ? element_count(model::parameters(teacher)) : 0) << stage.name;
  }
}

// Peaks that runs of 16,384 and 32,768 tokens a micro-batch reached on an H200 (docs/results.md, qwen3-mini).
TEST(MemoryEstimate, IsNearWhatWasMeasured) {
  model::ModelConfig mini;
  mini.base = bench_shape("qwen3-mini");
  mini.hybrid = model::HybridConfig{};
  mini.plan = model::plan_by_rule({}, mini.base, 0);
  const auto expect_near = [&](const Stage& stage, std::int64_t micro_batch, double gibibytes) {
    const std::int64_t estimate = estimate_memory(mini, stage, micro_batch, 2).total();
    EXPECT_NEAR(static_cast<double>(estimate) / (1 << 30), gibibytes, 0.1 * gibibytes) << stage.name;
  };
  AlignStage align;
  align.schedule.context = 512;
  DistillStage distill;
  distill.schedule.context = 512;
  LongContextStage long_context;
  long_context.schedule.context = 8192;
  long_context.recompute = false;
  expect_near(align_stage(align), 32, 0.73);
  expect_near(distill_stage(distill, 0), 32, 3.87);
  expect_near(long_context_stage(long_context, model::LogScaleMode::off), 4, 7.12);
}

TEST(MemoryEstimate, ShardsTakeLess) {
  const model::ModelConfig config = test::tiny_config(true);
  for (const Stage& stage : test::tiny_stages(1)) {
    const auto total = [&](optim::Shard shard, int ranks) {
      return estimate_memory(config, stage, 1, 2, {shard, ranks}).total();
    };
    EXPECT_EQ(total(optim::Shard::none, 1), total(optim::Shard::gradients, 1)) << stage.name;
    EXPECT_LT(total(optim::Shard::optimizer, 8), total(optim::Shard::none, 8)) << stage.name;
    EXPECT_LT(total(optim::Shard::gradients, 8), total(optim::Shard::gradients, 2)) << stage.name;
  }
}

}  // namespace
}  // namespace hydra::train
