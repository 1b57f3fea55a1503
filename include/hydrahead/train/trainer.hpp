#pragma once
// The training loop of one stage (method.md section 6): global batches over ranks and micro-batches, a loss divided by
// the global number of counted positions, AdamW, validation, checkpoints, signals. The only file that knows the loop.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hydrahead/checkpoint/checkpoint.hpp"
#include "hydrahead/data/batch.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/optim/optim_config.hpp"
#include "hydrahead/train/stage.hpp"
#include "hydrahead/train/trainable.hpp"

namespace hydra::train {

// Means over the counted positions of all micro-batches and ranks.
struct LossReport {
  double loss = 0.0;
  std::vector<double> parts;      // in the order of Stage::parts, without their weights
  std::vector<double> layer_mse;  // Stage::layer_losses only
};

struct StepReport {
  LossReport losses;
  double grad_norm = 0.0;              // before clipping
  double rate = 0.0;                   // given to the optimizer, before lr.scale
  bool skipped = false;                // non-finite gradients on some rank: no update
  std::int64_t counted = 0;            // positions that the loss was divided by
  double seconds = 0.0;                // of the whole step
  double data_seconds = 0.0;           // of it waiting for rows
  double communication_seconds = 0.0;  // of it with nothing to do but to wait for collectives
  std::vector<std::string> documents;  // of this rank's rows
};

// What a checkpoint stores beside the state.
struct StageWeights {
  model::WeightsOnHost weights;  // fp32; all ranks call it together
  io::TensorSlices moments;      // this rank's; none at the end of the stage
};

struct StageJob {
  const Stage& stage;
  model::Model& student;
  model::Model* teacher = nullptr;  // null if the stage needs none
  const data::RowSource& rows;
  const std::vector<data::Row>& validation;
  const optim::OptimizerConfig& optimizer;
  dist::Communicator& communicator;
  std::int64_t micro_batch = 1;                           // rows
  std::int64_t validate_every = 0, checkpoint_every = 0;  // steps; 0: only at the end
  optim::Shard shard = optim::Shard::none;
  bool prove_frozen = true;  // checksums of frozen tensors and of the teacher; benchmarks leave them out
  // Called before the first update, when it is settled what is trained.
  std::function<void(const TrainableSplit&)> on_start;
  // Called after each update, with the state that includes it. Callbacks run on every rank.
  std::function<void(const checkpoint::RunState&, const StepReport&)> on_step;
  std::function<void(const checkpoint::RunState&, const LossReport&)> on_validation;
  std::function<void(const checkpoint::RunState& state, const StageWeights& weights)> save;
};

// Trains from `state` (step 0: fresh optimizer and warm-up) to the end of the stage; `resume` holds the moments of a
// state within it. Throws Interrupted after a save when a signal asked any rank to stop, and Error after too many steps
// without an update, or if a frozen tensor or the teacher changed.
void train_stage(const StageJob& job, checkpoint::RunState& state, const std::optional<checkpoint::Checkpoint>& resume);

// The stage's loss on fixed rows, rank r taking rows r, r + R, ... Nothing if a signal came in between.
std::optional<LossReport> validate(const StageJob& job);

}  // namespace hydra::train
