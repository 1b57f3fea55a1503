#include "hydrahead/train/memory_estimate.hpp"

#include <algorithm>
#include <cstdio>

#include "hydrahead/base/error.hpp"

namespace hydra::train {
namespace {

constexpr std::int64_t kMasterBytes = 4;       // fp32
constexpr std::int64_t kChunk = 64;            // rows of a GDN chunk
constexpr std::int64_t kDeviceTokens = 65536;  // a micro-batch beyond this gains no speed
constexpr std::int64_t kCpuTokens = 4096;

std::int64_t elements(const model::ModelConfig& config, bool attention_only) {
  std::int64_t count = 0;
  for (const model::ExpectedTensor& tensor : model::expected_tensors(config)) {
    if (attention_only && tensor.name.find(".self_attn.") == std::string::npos) {
      continue;
    }
    std::int64_t size = 1;
    for (const std::int64_t extent : tensor.shape) {
      size *= extent;
    }
    count += size;
  }
  return count;
}

bool trains_attention_only(const Stage& stage) {
  return !stage.trains(model::Parameter{"", nullptr, -1, false, false});
}

// Kept by one layer's attention for backward, bytes per token: projections, their normed, rotated and unit-length
// forms, gates, head outputs, and for GDN the state of every chunk in fp32.
std::int64_t attention_bytes(const model::Qwen3Config& base, double gdn_share, std::int64_t compute_bytes) {
  const std::int64_t channels = base.heads * base.head_dim;
  const auto states = static_cast<std::int64_t>(gdn_share * static_cast<double>(channels * base.head_dim * 4 / kChunk));
  return compute_bytes * (3 * base.hidden_size + 14 * channels) + states;
}

std::int64_t mlp_bytes(const model::Qwen3Config& base, std::int64_t compute_bytes) {
  return compute_bytes * (2 * base.hidden_size + 4 * base.intermediate_size);
}

}  // namespace

ParameterCounts parameter_counts(const model::ModelConfig& hybrid, const Stage& stage) {
  ParameterCounts counts;
  counts.all = elements(hybrid, false);
  counts.trained = elements(hybrid, trains_attention_only(stage));
  if (stage.needs_teacher) {
    model::ModelConfig teacher;
    teacher.base = hybrid.base;
    counts.teacher = elements(teacher, false);
  }
  return counts;
}

MemoryEstimate estimate_memory(const model::ModelConfig& hybrid, const Stage& stage, std::int64_t micro_batch,
                               std::int64_t compute_bytes) {
  const model::Qwen3Config& base = hybrid.base;
  const ParameterCounts counts = parameter_counts(hybrid, stage);
  MemoryEstimate estimate;
  estimate.weights = counts.all * kMasterBytes;
  estimate.gradients = counts.trained * kMasterBytes;
  estimate.moments = 2 * counts.trained * kMasterBytes;
  estimate.teacher = counts.teacher * compute_bytes;

  const metrics::FlopsShape shape = flops_shape(hybrid);
  const double gdn_share = shape.gdn_heads / std::max(1.0, shape.fa_heads + shape.gdn_heads);
  const std::int64_t tokens = micro_batch * stage.schedule.context;
  const std::int64_t layer = attention_bytes(base, gdn_share, compute_bytes) + mlp_bytes(base, compute_bytes);
  const std::int64_t stream = compute_bytes * base.hidden_size;
  if (stage.layer_losses) {  // one layer at a time: its attention, and the teacher's block
    estimate.activations = tokens * (layer + 3 * stream);
  } else if (stage.recompute) {
    estimate.activations = tokens * (base.layers * stream + layer);
  } else {
    estimate.activations = tokens * (base.layers * (layer + stream) + 2 * stream);
  }
  // fp32 logits, their softmax and the gradient; the teacher's beside them for the KL term.
  const std::int64_t models = stage.needs_teacher ? 2 : 1;
  estimate.logits = std::min(stage.loss_chunk, tokens) * base.vocab_size * (4 + 4 * models);
  return estimate;
}

std::int64_t checkpoint_bytes(const ParameterCounts& counts) {
  return kMasterBytes * (counts.all + 2 * counts.trained);
}

std::int64_t choose_micro_batch(const model::ModelConfig& hybrid, const Stage& stage, int ranks,
                                std::int64_t compute_bytes, bool cpu, std::int64_t memory_bytes) {
  const StageSchedule& schedule = stage.schedule;
  const std::int64_t rows =
      std::max<std::int64_t>(1, (schedule.global_batch + ranks - 1) / ranks);  // of the busiest rank
  if (schedule.micro_batch != kAutoMicroBatch) {
    return std::min(schedule.micro_batch, rows);
  }
  std::int64_t fitting = std::clamp((cpu ? kCpuTokens : kDeviceTokens) / schedule.context, std::int64_t{1}, rows);
  if (!cpu) {
    const auto budget = static_cast<std::int64_t>(0.9 * static_cast<double>(memory_bytes));
    while (fitting > 1 && estimate_memory(hybrid, stage, fitting, compute_bytes).total() > budget) {
      --fitting;
    }
    const MemoryEstimate least = estimate_memory(hybrid, stage, fitting, compute_bytes);
    HYDRA_REQUIRE(least.total() <= budget, "stages.", stage.name, ": one row of ", schedule.context,
                  " tokens is estimated to need\n", memory_table(least), "the device has ", memory_bytes >> 20,
                  " MiB. Levers: stages.", stage.name,
                  ".context, .loss_chunk, .recompute; set micro_batch to try anyway");
  }
  const std::int64_t batches = (rows + fitting - 1) / fitting;
  return (rows + batches - 1) / batches;
}

std::string memory_table(const MemoryEstimate& estimate) {
  std::string text;
  const auto line = [&](const char* name, std::int64_t bytes) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "  %-12s %10.1f MiB\n", name, static_cast<double>(bytes) / (1 << 20));
    text += buffer;
  };
  line("weights", estimate.weights);
  line("gradients", estimate.gradients);
  line("moments", estimate.moments);
  line("teacher", estimate.teacher);
  line("activations", estimate.activations);
  line("logits", estimate.logits);
  line("total", estimate.total());
  return text;
}

}  // namespace hydra::train
