#pragma once
// Internal to train: what a stage trains, on this rank, and how its collectives meet the model's passes.

#include "hydrahead/optim/adamw.hpp"
#include "hydrahead/optim/flat_parameters.hpp"
#include "hydrahead/optim/gradients.hpp"
#include "hydrahead/train/trainer.hpp"

namespace hydra::train {

struct StageTraining {
  StageTraining(const StageJob& job, const TrainableSplit& split);
  StageTraining(const StageTraining&) = delete;
  StageTraining& operator=(const StageTraining&) = delete;
  ~StageTraining() { student.hooks = {}; }

  // The gathers of updated parameters run beside the updates that follow, and beside the next step's first layers.
  void update(const optim::GradientCheck& check, double rate);
  // The model is an ordinary fp32 one again. All ranks call it together.
  void finish();

  model::Model& student;
  optim::FlatParameters parameters;
  optim::Gradients gradients;
  optim::AdamW optimizer;
};

}  // namespace hydra::train
