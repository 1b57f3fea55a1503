#include "hydrahead/train/stage.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace hydra::train {
namespace {

bool everything(const model::Parameter&) { return true; }

std::int64_t all_positions(const data::Row& row) { return static_cast<std::int64_t>(row.ids.size()); }

std::int64_t labelled_positions(const data::Row& row) {
  return std::count_if(row.labels.begin(), row.labels.end(), [](std::int32_t label) { return label >= 0; });
}

}  // namespace

Stage align_stage(const AlignStage& config) {
  Stage stage;
  stage.name = "align";
  stage.schedule = config.schedule;
  stage.trains = [](const model::Parameter& parameter) { return parameter.attention; };
  stage.counted = all_positions;
  stage.loss = [options = config.options](const model::Model& student, const model::Model* teacher,
                                          const DeviceBatch& batch, double divisor, bool backward) {
    return align_loss(student, *teacher, batch, divisor, options, backward);
  };
  stage.parts = {{"mse", 1.0, &StageLoss::mse}};
  stage.layer_losses = true;
  stage.flops_per_token = [context = static_cast<double>(config.schedule.context)](const metrics::FlopsShape& student,
                                                                                   const metrics::FlopsShape& teacher) {
    return metrics::align_flops(student, teacher, context);
  };
  return stage;
}

Stage distill_stage(const DistillStage& config, std::int64_t tokenizer_size) {
  const DistillOptions options{.kl_weight = config.kl_weight,
                               .ce_weight = config.ce_weight,
                               .temperature = config.temperature,
                               .vocab_limit = config.vocab == DistillVocab::real ? tokenizer_size : 0,
                               .chunk_rows = config.loss_chunk,
                               .recompute = config.recompute};
  Stage stage;
  stage.name = "distill";
  stage.schedule = config.schedule;
  stage.recompute = config.recompute;
  stage.loss_chunk = config.loss_chunk;
  stage.trains = everything;
  stage.counted = labelled_positions;
  stage.loss = [options](const model::Model& student, const model::Model* teacher, const DeviceBatch& batch,
                         double divisor,
                         bool backward) { return distill_loss(student, *teacher, batch, divisor, options, backward); };
  stage.parts = {{"kl", config.kl_weight, &StageLoss::kl}, {"ce", config.ce_weight, &StageLoss::ce}};
  stage.flops_per_token = [context = static_cast<double>(config.schedule.context)](const metrics::FlopsShape& student,
                                                                                   const metrics::FlopsShape& teacher) {
    return metrics::distill_flops(student, teacher, context);
  };
  return stage;
}

Stage long_context_stage(const LongContextStage& config, model::LogScaleMode log_scale) {
  Stage stage;
  stage.name = "long_context";
  stage.schedule = config.schedule;
  stage.needs_teacher = false;
  stage.recompute = config.recompute;
  stage.loss_chunk = config.loss_chunk;
  stage.trains = everything;
  stage.counted = labelled_positions;
  stage.loss = [recompute = config.recompute, chunk = config.loss_chunk,
                scaled = log_scale == model::LogScaleMode::stage3_and_inference](
                   const model::Model& student, const model::Model*, const DeviceBatch& batch, double divisor,
                   bool backward) {
    return long_context_loss(student, batch, divisor, scaled, recompute, chunk, backward);
  };
  stage.parts = {{"ce", 1.0, &StageLoss::ce}};
  stage.flops_per_token = [context = static_cast<double>(config.schedule.context)](const metrics::FlopsShape& student,
                                                                                   const metrics::FlopsShape&) {
    return metrics::long_context_flops(student, context);
  };
  return stage;
}

std::vector<Stage> make_stages(const StagesConfig& config, model::LogScaleMode log_scale, std::int64_t tokenizer_size) {
  std::vector<Stage> stages;
  if (config.align) {
    stages.push_back(align_stage(*config.align));
  }
  if (config.distill) {
    stages.push_back(distill_stage(*config.distill, tokenizer_size));
  }
  if (config.long_context) {
    stages.push_back(long_context_stage(*config.long_context, log_scale));
  }
  return stages;
}

metrics::FlopsShape flops_shape(const model::ModelConfig& config) {
  metrics::FlopsShape shape;
  for (const model::ExpectedTensor& tensor : model::expected_tensors(config)) {
    if (tensor.shape.size() != 2) {
      continue;
    }
    const auto entries = static_cast<double>(tensor.shape[0] * tensor.shape[1]);
    if (tensor.name.find(".self_attn.") != std::string::npos) {
      shape.attention_parameters += entries;
    } else if (tensor.name.find(".mlp.") != std::string::npos) {
      shape.mlp_parameters += entries;
    }
  }
  const model::Qwen3Config& base = config.base;
  shape.head_parameters = static_cast<double>(base.vocab_size * base.hidden_size);
  const std::int64_t heads = base.layers * base.heads;
  const std::int64_t fa_heads = config.plan ? config.plan->fa_count() : heads;
  shape.fa_heads = static_cast<double>(fa_heads);
  shape.gdn_heads = static_cast<double>(heads - fa_heads);
  shape.head_dim = static_cast<double>(base.head_dim);
  shape.hidden = static_cast<double>(base.hidden_size);
  return shape;
}

}  // namespace hydra::train
