// Resume within a stage is exact: bit-identical on the CPU; a signal saves one checkpoint and stops.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/checkpoint/retention.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/train/support_tiny.hpp"

namespace hydra::train {
namespace {

using test::RandomRows;
using test::run_stage;
using test::RunOptions;
using test::snapshot;
using test::student_of;
using test::Trace;

void expect_bit_identical(model::Model& a, model::Model& b, const std::string& what) {
  const auto first = snapshot(a), second = snapshot(b);
  for (const auto& [name, tensor] : first) {
    EXPECT_TRUE(at::equal(tensor, second.at(name))) << what << ": " << name;
  }
}

TEST(Resume, MidStageIsBitIdentical) {
  const auto solo = dist::make_solo_communicator();
  const RandomRows rows(12);
  for (const Stage& stage : test::tiny_stages(9)) {
    const hydra::test::TempDir dir;
    model::Model teacher = test::tiny_model(false, 7), straight = test::tiny_model(true, 8);
    RunOptions options;
    options.optimizer.weight_decay = 0.1;
    options.checkpoint_every = 4;
    options.checkpoints = dir.path();
    const Trace whole = run_stage(stage, straight, &teacher, rows, *solo, options);

    const auto saved = checkpoint::open_checkpoint(checkpoint::checkpoint_path(dir.path(), 4));
    EXPECT_FALSE(saved.state.stage_done());
    model::Model resumed = student_of(saved);
    options.checkpoints.clear();
    const Trace rest = run_stage(stage, resumed, &teacher, rows, *solo, options, saved);
    EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + 4, whole.losses.end())) << stage.name;
    EXPECT_EQ(rest.rates, std::vector<double>(whole.rates.begin() + 4, whole.rates.end())) << stage.name;
    expect_bit_identical(straight, resumed, stage.name);
    EXPECT_TRUE(checkpoint::find_newest(dir.path()).checkpoint->state.stage_done());
  }
}

TEST(Resume, ASignalFinishesTheStepSavesOnceAndContinuesExactly) {
  const auto solo = dist::make_solo_communicator();
  const RandomRows rows(13);
  const Stage stage = test::tiny_stages(8)[1];
  model::Model teacher = test::tiny_model(false, 7), straight = test::tiny_model(true, 8),
               stopped = test::tiny_model(true, 8);
  const Trace whole = run_stage(stage, straight, &teacher, rows, *solo);

  const hydra::test::TempDir dir;
  RunOptions options;
  options.checkpoints = dir.path();
  // The flag is raised after step 2 is over, so step 3 is the one that sees it.
  options.after_step = [](const checkpoint::RunState& at) {
    if (at.step == 2) {
      request_stop();
    }
  };
  EXPECT_THROW(run_stage(stage, stopped, &teacher, rows, *solo, options), Interrupted);
  clear_stop_request();
  const auto all = checkpoint::list_checkpoints(dir.path());
  ASSERT_EQ(all.size(), 1u);
  const checkpoint::Checkpoint saved = checkpoint::open_checkpoint(all[0]);
  EXPECT_EQ(saved.state.step, 3);
  model::Model resumed = student_of(saved);
  options.checkpoints.clear();
  options.after_step = {};
  const Trace rest = run_stage(stage, resumed, &teacher, rows, *solo, options, saved);
  EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + 3, whole.losses.end()));
  expect_bit_identical(straight, resumed, stage.name);
}

TEST(Resume, ASignalDuringValidationStopsToo) {
  const auto solo = dist::make_solo_communicator();
  const RandomRows rows(14);
  model::Model student = test::tiny_model(true, 8);
  Stage stage = test::tiny_stages(8)[2];
  stage.loss = [loss = stage.loss](const model::Model& model, const model::Model* teacher, const DeviceBatch& batch,
                                   double divisor, bool backward) {
    if (!backward) {
      request_stop();
    }
    return loss(model, teacher, batch, divisor, backward);
  };
  RunOptions options;
  options.validation = {rows.row(100), rows.row(101), rows.row(102)};
  options.micro_batch = 1;
  options.validate_every = 2;
  Trace trace;
  const hydra::test::TempDir dir;
  options.checkpoints = dir.path();
  EXPECT_THROW(trace = run_stage(stage, student, nullptr, rows, *solo, options), Interrupted);
  clear_stop_request();
  EXPECT_TRUE(trace.validations.empty());
  EXPECT_EQ(checkpoint::find_newest(dir.path()).checkpoint->state.step, 2);
}

}  // namespace
}  // namespace hydra::train
