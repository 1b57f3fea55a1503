#include "hydrahead/train/memory_estimate.hpp"

#include <algorithm>
#include <cstdio>

#include "hydrahead/base/error.hpp"

namespace hydra::train {
namespace {

constexpr std::int64_t kMasterBytes = 4;       // fp32
constexpr std::int64_t kChunk = 64;            // rows of a GDN chunk: its inverse has kChunk^2 elements
constexpr std::int64_t kDeviceTokens = 65536;  // a micro-batch beyond this gains no speed
constexpr std::int64_t kCpuTokens = 4096;

std::int64_t elements_of(const model::ExpectedTensor& tensor) {
  std::int64_t size = 1;
  for (const std::int64_t extent : tensor.shape) {
    size *= extent;
  }
  return size;
}

bool trains_attention_only(const Stage& stage) {
  return !stage.trains(model::Parameter{"", nullptr, -1, false, false});
}

bool is_attention(const model::ExpectedTensor& tensor) { return tensor.name.find(".self_attn.") != std::string::npos; }

std::int64_t elements(const model::ModelConfig& config, bool attention_only) {
  std::int64_t count = 0;
  for (const model::ExpectedTensor& tensor : model::expected_tensors(config)) {
    count += attention_only && !is_attention(tensor) ? 0 : elements_of(tensor);
  }
  return count;
}

// Elements a token and layer, means over the layers.
struct LayerShape {
  std::int64_t hidden, intermediate, channels, fa, touched, gdn;
};
LayerShape layer_shape(const model::ModelConfig& hybrid) {
  const model::Qwen3Config& base = hybrid.base;
  const std::int64_t d = base.head_dim, all = base.heads * d;
  const std::int64_t fa = hybrid.plan ? hybrid.plan->fa_count() * d / base.layers : all;
  const std::int64_t touched = hybrid.plan ? hybrid.plan->touched_groups() * d / base.layers : base.kv_heads * d;
  return {base.hidden_size, base.intermediate_size, all, fa, touched, all - fa};
}

// Kept by one layer's attention for backward, bytes a token: its input; FA: queries and keys before and after their
// norm, values, outputs, gate; GDN: projections of q and k, their directions, values, outputs, gate, the two fp32
// scalars of a head and what the delta rule saves (kernels: the inverse of each chunk; ATen: the fp32 state at each
// chunk); the joined heads.
std::int64_t attention_bytes(const model::Qwen3Config& base, const LayerShape& layer, std::int64_t compute_bytes) {
  const std::int64_t rows = layer.hidden + 4 * layer.fa + 3 * layer.touched + 7 * layer.gdn + layer.channels;
  const std::int64_t saved =
      compute_bytes == 2 ? layer.gdn / base.head_dim * kChunk * 2 : layer.gdn * base.head_dim * 4 / kChunk;
  return compute_bytes * rows + 8 * layer.gdn / base.head_dim + saved;
}

// The residual stream before and in the middle of the layer, the MLP's input, and its two products.
std::int64_t mlp_bytes(const LayerShape& layer, std::int64_t compute_bytes) {
  return compute_bytes * (3 * layer.hidden + 2 * layer.intermediate);
}

// Besides, while the backward pass of a layer runs: the MLP's activation and five gradients; or the gradients of a GDN
// branch with the states of all chunks and their gradients, in 16 bit by the kernels.
std::int64_t layer_temporaries(const model::Qwen3Config& base, const LayerShape& layer, std::int64_t compute_bytes) {
  const std::int64_t mlp = compute_bytes * (2 * layer.hidden + 5 * layer.intermediate);
  const std::int64_t attention =
      compute_bytes * (2 * layer.hidden + 8 * layer.gdn) + 2 * compute_bytes * layer.gdn * base.head_dim / kChunk;
  return std::max(mlp, attention);
}

bool shards_gradients(const Sharding& sharding) {
  return sharding.ranks > 1 && sharding.shard == optim::Shard::gradients;
}

// Weights, gradients and moments that stay.
void add_parameters(MemoryEstimate& estimate, const ParameterCounts& counts, std::int64_t compute_bytes,
                    const Sharding& sharding) {
  const std::int64_t ranks = sharding.ranks;
  const std::int64_t parts = sharding.shard == optim::Shard::none ? 1 : ranks;
  const std::int64_t masters = counts.trained * kMasterBytes;
  const bool copies = compute_bytes < kMasterBytes;  // else masters are what the model computes with, whole
  estimate.weights = (counts.all - counts.trained) * kMasterBytes;
  estimate.weights += copies ? counts.trained * compute_bytes + masters / parts : masters;
  estimate.moments = 2 * masters / parts;
  estimate.gradients = (shards_gradients(sharding) ? 0 : masters) + (ranks > 1 ? masters / ranks : 0);
}

// Whole gradients that exist for a while where they are sharded: of a layer in its backward pass and two in reduction,
// and of the embedding, which is complete last.
struct WholeGradients {
  std::int64_t layers = 0, embedding = 0;
};
WholeGradients whole_gradients(const model::ModelConfig& hybrid, const Stage& stage, const ParameterCounts& counts,
                               const Sharding& sharding) {
  WholeGradients whole;
  if (shards_gradients(sharding)) {
    const std::int64_t embedding = hybrid.base.vocab_size * hybrid.base.hidden_size;
    whole.embedding = trains_attention_only(stage) ? 0 : kMasterBytes * embedding;
    whole.layers = 3 * (kMasterBytes * counts.trained - whole.embedding) / hybrid.base.layers;
  }
  return whole;
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
                               std::int64_t compute_bytes, const Sharding& sharding) {
  const model::Qwen3Config& base = hybrid.base;
  const ParameterCounts counts = parameter_counts(hybrid, stage);
  MemoryEstimate estimate;
  add_parameters(estimate, counts, compute_bytes, sharding);
  estimate.teacher = counts.teacher * compute_bytes;

  const LayerShape layer = layer_shape(hybrid);
  const std::int64_t tokens = micro_batch * stage.schedule.context;
  const std::int64_t stream = compute_bytes * layer.hidden;
  const std::int64_t attention = attention_bytes(base, layer, compute_bytes);
  const std::int64_t tables = 4 * base.head_dim + 32;  // cosines and sines in fp32, ids, labels, positions
  const WholeGradients whole = whole_gradients(hybrid, stage, counts, sharding);
  const std::int64_t in_backward = whole.layers + tokens * layer_temporaries(base, layer, compute_bytes);
  if (stage.layer_losses) {
    // One layer's attention at a time, beside the teacher's stream, its output, and the fp32 error with its gradient.
    estimate.activations = tokens * (tables + attention + 3 * stream);
    estimate.temporaries = std::max(in_backward, tokens * (16 * layer.hidden + stream));
    return estimate;
  }
  const std::int64_t kept = attention + mlp_bytes(layer, compute_bytes);
  const std::int64_t teacher_hidden = stage.needs_teacher ? stream : 0;
  estimate.activations = tokens * (tables + 2 * stream + teacher_hidden +
                                   (stage.recompute ? base.layers * stream + kept : base.layers * kept));
  // The loss: fp32 logits of both models, the gradient in the compute type (fp32: in place on CUDA, a softmax and it on
  // the CPU), and the fp32 gradient of the head. Then a layer's backward pass. Then, without activations, the
  // embedding's gradient and its copy for the reduction.
  const std::int64_t models = stage.needs_teacher ? 2 : 1;
  const std::int64_t logits = std::min(stage.loss_chunk, tokens) * base.vocab_size * (4 * models + compute_bytes);
  estimate.temporaries =
      std::max({logits + kMasterBytes * base.vocab_size * base.hidden_size, whole.embedding + in_backward,
                whole.layers + 2 * whole.embedding - estimate.activations});
  return estimate;
}

std::int64_t checkpoint_bytes(const ParameterCounts& counts) {
  return kMasterBytes * (counts.all + 2 * counts.trained);
}

std::int64_t choose_micro_batch(const model::ModelConfig& hybrid, const Stage& stage, const Sharding& sharding,
                                std::int64_t compute_bytes, bool cpu, std::int64_t memory_bytes) {
  const StageSchedule& schedule = stage.schedule;
  const std::int64_t rows =
      std::max<std::int64_t>(1, (schedule.global_batch + sharding.ranks - 1) / sharding.ranks);  // of the busiest rank
  if (schedule.micro_batch != kAutoMicroBatch) {
    return std::min(schedule.micro_batch, rows);
  }
  std::int64_t fitting = std::clamp((cpu ? kCpuTokens : kDeviceTokens) / schedule.context, std::int64_t{1}, rows);
  if (!cpu) {
    const auto budget = static_cast<std::int64_t>(0.9 * static_cast<double>(memory_bytes));
    while (fitting > 1 && estimate_memory(hybrid, stage, fitting, compute_bytes, sharding).total() > budget) {
      --fitting;
    }
    const MemoryEstimate least = estimate_memory(hybrid, stage, fitting, compute_bytes, sharding);
    HYDRA_REQUIRE(least.total() <= budget, "stages.", stage.name, ": one row of ", schedule.context,
                  " tokens is estimated to need\n", memory_table(least), "the device has ", memory_bytes >> 20,
                  " MiB. Levers: stages.", stage.name,
                  ".context, .loss_chunk, .recompute, parallel.shard with more ranks; set micro_batch to try anyway");
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
  line("temporaries", estimate.temporaries);
  line("total", estimate.total());
  return text;
}

}  // namespace hydra::train
