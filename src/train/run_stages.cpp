#include "run_stages.hpp"

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/checkpoint/retention.hpp"

namespace hydra::train {
namespace {

namespace fs = std::filesystem;

std::string settings_hash(const RunConfig& config, const Stage& stage) {
  return sha256_hex(deciding_settings(config, stage.name));
}

void require_fits(const checkpoint::Checkpoint& checkpoint, const RunConfig& config, const Stage& stage) {
  const checkpoint::RunState& state = checkpoint.state;
  const std::string where = checkpoint.dir.string();
  HYDRA_REQUIRE(state.stage == stage.name, where, ": belongs to stage ", state.stage, ", expected ", stage.name);
  HYDRA_REQUIRE(state.config_sha256 == settings_hash(config, stage), where,
                ": was written with other settings than this config has for stage ", stage.name);
  HYDRA_REQUIRE(
      state.total_steps == stage.schedule.total_steps() && state.next_row == state.step * stage.schedule.global_batch,
      where, ": step ", state.step, " of ", state.total_steps, " with row ", state.next_row, ", expected ",
      stage.schedule.total_steps(), " steps of ", stage.schedule.global_batch, " rows");
}

std::optional<checkpoint::Checkpoint> checkpoint_of(const TrainOptions& options, const fs::path& dir) {
  if (!options.resume_from.empty() &&
      fs::weakly_canonical(options.resume_from).parent_path() == fs::weakly_canonical(dir)) {
    return checkpoint::open_checkpoint(options.resume_from);
  }
  checkpoint::NewestCheckpoint newest = checkpoint::find_newest(dir);
  for (const std::string& skipped : newest.skipped) {
    log_warning("skipped ", skipped);
  }
  HYDRA_REQUIRE(newest.checkpoint || newest.skipped.empty(), dir.string(),
                ": no checkpoint of this stage is complete; newest: ", newest.skipped.front(),
                ". Remove the directory to start the stage anew");
  return newest.checkpoint;
}

}  // namespace

std::vector<StageProgress> find_progress(const RunConfig& config, const TrainOptions& options,
                                         const RunDirectory& directory, const std::vector<Stage>& stages) {
  std::vector<StageProgress> progress;
  bool resumed_from = options.resume_from.empty();
  bool reached = options.only_stage.empty();
  for (const Stage& stage : stages) {
    StageProgress next{&stage, checkpoint_of(options, directory.stage(stage.name))};
    if (next.checkpoint) {
      require_fits(*next.checkpoint, config, stage);
      HYDRA_REQUIRE(progress.empty() || progress.back().done(), next.checkpoint->dir.string(), ": stage ", stage.name,
                    " was begun from a later state of stage ", progress.back().stage->name,
                    "; move its directory away to continue the earlier stage");
      resumed_from = resumed_from || next.checkpoint->dir == options.resume_from;
    }
    progress.push_back(next);
    if (stage.name == options.only_stage) {
      reached = true;
      break;
    }
    HYDRA_REQUIRE(options.only_stage.empty() || next.done(), "--stage ", options.only_stage, ": stage ", stage.name,
                  " comes before it and is not finished in ", directory.root.string());
  }
  HYDRA_REQUIRE(reached, "--stage ", options.only_stage, ": the config has no such stage");
  HYDRA_REQUIRE(resumed_from, options.resume_from.string(), ": no checkpoint of a stage of ", directory.root.string());
  return progress;
}

checkpoint::RunState first_state(const RunConfig& config, const Stage& stage, const checkpoint::RunState* before) {
  checkpoint::RunState state;
  state.stage = stage.name;
  state.total_steps = stage.schedule.total_steps();
  state.seed = config.seed;
  state.config_sha256 = settings_hash(config, stage);
  if (before != nullptr) {
    state.run_step = before->run_step;
    state.run_tokens = before->run_tokens;
  }
  return state;
}

}  // namespace hydra::train
