#pragma once
// What the trainer needs to know about a stage: its schedule, what it trains, what its loss counts, the loss itself and
// the parts to report. The three stages of method.md section 6 are values of this type.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hydrahead/data/batch.hpp"
#include "hydrahead/metrics/throughput.hpp"
#include "hydrahead/train/stage_config.hpp"
#include "hydrahead/train/stage_loss.hpp"

namespace hydra::train {

struct LossPart {
  std::string name;
  double weight;  // in the stage's loss
  at::Tensor StageLoss::*share;
};

struct Stage {
  std::string name;
  StageSchedule schedule;
  bool needs_teacher = true;
  bool recompute = false;       // layer activations are computed again in backward
  std::int64_t loss_chunk = 0;  // rows whose logits exist at a time; 0: the stage has no logits
  std::function<bool(const model::Parameter&)> trains;
  std::function<std::int64_t(const data::Row&)> counted;  // positions that the loss is divided by
  // teacher is null for a stage that needs none. Adds to .grad of what requires grad if `backward`.
  std::function<StageLoss(const model::Model& student, const model::Model* teacher, const DeviceBatch& batch,
                          double divisor, bool backward)>
      loss;
  std::vector<LossPart> parts;
  bool layer_losses = false;  // StageLoss::layer_mse holds a value a layer
  std::function<double(const metrics::FlopsShape& student, const metrics::FlopsShape& teacher)> flops_per_token;
};

Stage align_stage(const AlignStage& config);
// tokenizer_size: ids that the tokenizer knows, for `vocab: real`.
Stage distill_stage(const DistillStage& config, std::int64_t tokenizer_size);
Stage long_context_stage(const LongContextStage& config, model::LogScaleMode log_scale);

// The configured stages in their order.
std::vector<Stage> make_stages(const StagesConfig& config, model::LogScaleMode log_scale, std::int64_t tokenizer_size);

// Matrix entries and heads of a model, for FLOPs: a teacher, or a hybrid with its plan.
metrics::FlopsShape flops_shape(const model::ModelConfig& config);

}  // namespace hydra::train
