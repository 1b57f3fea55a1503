#pragma once
// Internal to train: what follows from a config before anything is loaded.

#include <ATen/core/Tensor.h>

#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/train/training_run.hpp"

namespace hydra::train {

// UserError for what no run can do: no teacher, no stage, a number of ranks that the config does not name, ...
void check_request(const RunConfig& config, const TrainOptions& options, int ranks);

// Type of activations, and of the teacher's weights.
at::ScalarType compute_type(const RunConfig& config, const at::Device& device);

// What a run of `config` converts the teacher into, from the teacher's config.json alone.
model::ModelConfig planned_hybrid(const RunConfig& config);

}  // namespace hydra::train
