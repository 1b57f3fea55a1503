// Data parallelism in bf16 over fp32 masters on one GPU, with threads as ranks that share it: the same bits however the
// state is sharded, and losses near those of one rank.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/cuda.hpp"
#include "tests/train/support_tiny.hpp"

namespace hydra::train {
namespace {

using optim::Shard;
using test::RandomRows;
using test::run_ranks;
using test::RunOptions;
using test::StageRun;

RunOptions options_of(Shard shard) {
  RunOptions options;
  options.micro_batch = 1;
  options.shard = shard;
  return options;
}

TEST(DataParallelGpu, ShardsGiveTheSameBitsAndTrainLikeOneRank) {
  HYDRA_NEEDS_CUDA();
  // Attention's backward pass adds in any order otherwise.
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  const model::LoadOptions types{at::kCUDA, at::kFloat, at::kBFloat16};
  for (const Stage& stage : test::tiny_stages(8, 5)) {
    const StageRun one = run_ranks(stage, types, 1, RandomRows(5), options_of(Shard::none));
    std::optional<StageRun> first;
    for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients}) {
      const std::string what = stage.name + ", " + optim::shard_name(shard);
      const StageRun run = run_ranks(stage, types, 2, RandomRows(5), options_of(shard));
      first = first ? first : run;
      EXPECT_EQ(first->trace.losses, run.trace.losses) << what;
      EXPECT_EQ(test::max_difference(first->parameters, run.parameters), 0.0) << what;
      for (std::size_t step = 0; step < one.trace.losses.size(); ++step) {
        EXPECT_NEAR(one.trace.losses[step], run.trace.losses[step], 0.02 * one.trace.losses[step]) << what;
      }
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

}  // namespace
}  // namespace hydra::train
