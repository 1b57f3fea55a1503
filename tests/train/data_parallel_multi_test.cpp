// Data parallelism on threads: losses and parameters of one rank, the same bits however the state is sharded, and
// checkpoints that any number of ranks continues.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/checkpoint/retention.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/train/support_tiny.hpp"

namespace hydra::train {
namespace {

using optim::Shard;
using test::RandomRows;
using test::run_ranks;
using test::RunOptions;
using test::StageRun;

constexpr Shard kShards[] = {Shard::none, Shard::optimizer, Shard::gradients};
const model::LoadOptions kFloat{at::kCPU, at::kFloat, at::kFloat};

// Five rows a step, of one to three documents of any length: no number of ranks divides rows or tokens evenly.
std::vector<Stage> uneven_stages(std::int64_t steps) {
  std::vector<Stage> stages = test::tiny_stages(steps, 5);
  for (Stage& stage : stages) {
    stage.schedule.lr.peak = 1e-4;  // rounding is not amplified
  }
  return stages;
}

RunOptions options_of(std::int64_t micro_batch, Shard shard = Shard::none) {
  RunOptions options;
  options.micro_batch = micro_batch;
  options.shard = shard;
  options.optimizer.weight_decay = 0.1;
  options.validation = test::rows_of(RandomRows(10), 3);
  return options;
}

// micro_batch 1: ranks add up one to three micro-batches, some of them nothing in the last round.
TEST(DataParallel, EqualsOneRankAndIsTheSameBitsForEveryShard) {
  for (const Stage& stage : uneven_stages(20)) {
    const StageRun one = run_ranks(stage, kFloat, 1, RandomRows(5), options_of(5));
    for (const int ranks : {2, 4}) {
      std::optional<StageRun> first;
      for (const Shard shard : kShards) {
        const std::string what = detail::concat(stage.name, ", ", ranks, " ranks, ", optim::shard_name(shard));
        const StageRun run = run_ranks(stage, kFloat, ranks, RandomRows(5), options_of(1, shard));
        test::expect_same(one, run, 1e-6, 1e-5, what);
        EXPECT_EQ(one.documents, run.documents) << what;
        if (first) {
          EXPECT_EQ(first->trace.losses, run.trace.losses) << what;
          EXPECT_EQ(first->trace.norms, run.trace.norms) << what;
          EXPECT_EQ(test::max_difference(first->parameters, run.parameters), 0.0) << what;
        }
        first = first ? first : run;
      }
    }
  }
}

// fp64 at a rate that would amplify any error of the algorithm.
TEST(DataParallel, EqualsOneRankInDoublePrecision) {
  const model::LoadOptions types{at::kCPU, at::kDouble, at::kDouble};
  for (const Stage& stage : test::tiny_stages(20, 5)) {
    test::expect_same(run_ranks(stage, types, 1, RandomRows(5), options_of(2)),
                      run_ranks(stage, types, 3, RandomRows(5), options_of(2, Shard::gradients)), 1e-8, 1e-7,
                      stage.name);
  }
}

// 16-bit copies of fp32 masters: the shards agree to the bit there too, and one rank trains as in fp32.
TEST(DataParallel, SixteenBitCopies) {
  const model::LoadOptions types{at::kCPU, at::kFloat, at::kBFloat16};
  for (const Stage& stage : uneven_stages(6)) {
    const StageRun wide = run_ranks(stage, kFloat, 1, RandomRows(5), options_of(5));
    const StageRun one = run_ranks(stage, types, 1, RandomRows(5), options_of(5));
    EXPECT_NEAR(one.trace.losses.back(), wide.trace.losses.back(), 0.005 * wide.trace.losses.back()) << stage.name;
    EXPECT_LT(test::max_difference(one.parameters, wide.parameters), 2.5e-3) << stage.name;
    std::optional<StageRun> first;
    for (const Shard shard : kShards) {
      const StageRun run = run_ranks(stage, types, 2, RandomRows(5), options_of(2, shard));
      EXPECT_EQ(run.parameters.at("model.norm.weight").scalar_type(), at::kFloat);
      first = first ? first : run;
      EXPECT_EQ(first->trace.losses, run.trace.losses) << stage.name << ", " << optim::shard_name(shard);
      EXPECT_EQ(test::max_difference(first->parameters, run.parameters), 0.0) << stage.name;
    }
    EXPECT_NEAR(one.trace.losses.back(), first->trace.losses.back(), 0.01 * one.trace.losses.back()) << stage.name;
  }
}

// Written by R ranks, continued by R': the same documents, rates and losses. R = R': the same bits.
TEST(DataParallel, CheckpointsContinueOnAnyNumberOfRanks) {
  struct Case {
    int writers;
    Shard written;
    int readers;
    Shard read;
  };
  const Case cases[] = {{1, Shard::none, 2, Shard::gradients},     {1, Shard::none, 4, Shard::optimizer},
                        {2, Shard::gradients, 1, Shard::none},     {2, Shard::none, 4, Shard::gradients},
                        {4, Shard::optimizer, 2, Shard::none},     {4, Shard::gradients, 1, Shard::none},
                        {2, Shard::gradients, 2, Shard::optimizer}};
  const std::vector<Stage> stages = uneven_stages(8);
  int next = 0;
  for (const Case& each : cases) {
    const Stage& stage = stages[static_cast<std::size_t>(next++ % 3)];
    const std::string what = detail::concat(stage.name, ", ", each.writers, " to ", each.readers, " ranks");
    const hydra::test::TempDir dir;
    RunOptions options = options_of(1, each.written);
    options.checkpoint_every = 4;
    options.checkpoints = dir.path();
    const StageRun whole = run_ranks(stage, kFloat, each.writers, RandomRows(12), options);
    const auto saved = checkpoint::open_checkpoint(checkpoint::checkpoint_path(dir.path(), 4));
    const StageRun rest = run_ranks(stage, kFloat, each.readers, RandomRows(12), options_of(1, each.read), saved);
    ASSERT_EQ(rest.trace.losses.size(), 4u) << what;
    const bool same = each.writers == each.readers;
    for (std::size_t step = 0; step < 4; ++step) {
      EXPECT_NEAR(rest.trace.losses[step], whole.trace.losses[4 + step], same ? 0.0 : 1e-6) << what;
      EXPECT_EQ(rest.trace.rates[step], whole.trace.rates[4 + step]) << what;
      EXPECT_EQ(rest.documents[step], whole.documents[4 + step]) << what;
    }
    EXPECT_LE(test::max_difference(rest.parameters, whole.parameters), same ? 0.0 : 1e-5) << what;
  }
}

// A signal that reached one rank: all stop after the same step, with one checkpoint.
TEST(DataParallel, ASignalStopsAllRanksAtTheSameStep) {
  const hydra::test::TempDir dir;
  const Stage stage = uneven_stages(8)[2];
  RunOptions options = options_of(2, Shard::gradients);
  options.checkpoints = dir.path();
  options.after_step = [](const checkpoint::RunState& at) {
    if (at.step == 2) {
      request_stop();
    }
  };
  EXPECT_THROW(run_ranks(stage, kFloat, 2, RandomRows(13), options), Interrupted);
  clear_stop_request();
  const auto all = checkpoint::list_checkpoints(dir.path());
  ASSERT_EQ(all.size(), 1u);
  const checkpoint::Checkpoint saved = checkpoint::open_checkpoint(all[0]);
  EXPECT_EQ(saved.state.step, 3);
  EXPECT_TRUE(std::filesystem::exists(saved.dir / "optimizer-00002-of-00002.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(saved.model_dir() / "model.safetensors.index.json"));
}

}  // namespace
}  // namespace hydra::train
