#pragma once
// Internal to train: what is already done of a run's stages, and what to do next.

#include <filesystem>
#include <optional>
#include <vector>

#include "hydrahead/checkpoint/checkpoint.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/train/run_directory.hpp"
#include "hydrahead/train/stage.hpp"
#include "hydrahead/train/training_run.hpp"

namespace hydra::train {

struct StageProgress {
  const Stage* stage;
  std::optional<checkpoint::Checkpoint> checkpoint;  // the one to continue from
  bool done() const { return checkpoint && checkpoint->state.stage_done(); }
};

// The stages up to the last one that this call runs, with the newest complete checkpoint of each; skipped ones are
// named in the log. UserError: no complete one although there are some, other settings, a stage begun before its
// predecessor was done, only_stage without what comes before it.
std::vector<StageProgress> find_progress(const RunConfig& config, const TrainOptions& options,
                                         const RunDirectory& directory, const std::vector<Stage>& stages);

// The state with which a stage begins, counting on from the stage before (null: none).
checkpoint::RunState first_state(const RunConfig& config, const Stage& stage, const checkpoint::RunState* before);

}  // namespace hydra::train
