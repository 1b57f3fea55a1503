#pragma once
// The config section `stages`: align, distill, long_context (method.md section 6).

#include <cstdint>
#include <optional>

#include "hydrahead/config/binder.hpp"
#include "hydrahead/data/data_config.hpp"
#include "hydrahead/optim/optim_config.hpp"
#include "hydrahead/train/stage_loss.hpp"

namespace hydra::train {

inline constexpr std::int64_t kAutoMicroBatch = -1;

// What every stage has. A step reads global_batch rows of `context` tokens.
struct StageSchedule {
  std::optional<std::int64_t> tokens = std::nullopt, steps = std::nullopt;  // at least one is given; both must agree
  std::int64_t context = 512;
  std::int64_t global_batch = 32;              // rows a step over all ranks
  std::int64_t micro_batch = kAutoMicroBatch;  // rows a forward pass and rank
  optim::LrConfig lr;
  std::optional<data::Packing> packing = std::nullopt;          // else data.packing
  std::optional<std::int64_t> validate_every = std::nullopt;    // steps, else data.validation.every
  std::optional<std::int64_t> checkpoint_every = std::nullopt;  // steps, else checkpoint.every

  std::int64_t tokens_per_step() const { return context * global_batch; }
  std::int64_t total_steps() const;  // steps, or tokens rounded up to whole steps
};
void describe(config::Binder& binder, StageSchedule& value);

struct AlignStage {
  StageSchedule schedule{.lr = {.peak = 1e-3, .final_rate = 1e-5}};
  AlignOptions options;
};
void describe(config::Binder& binder, AlignStage& value);

enum class DistillVocab { full, real };  // real: the tokenizer's ids only

struct DistillStage {
  StageSchedule schedule{.global_batch = 96, .lr = {.peak = 1e-4, .final_rate = 1e-5}};
  double kl_weight = 1.0, ce_weight = 0.1, temperature = 1.0;
  DistillVocab vocab = DistillVocab::full;
  std::int64_t loss_chunk = 1024;  // rows whose logits exist at a time
  bool recompute = false;          // layer activations are computed again in the backward pass
};
void describe(config::Binder& binder, DistillStage& value);

struct LongContextStage {
  StageSchedule schedule{.context = 16384,
                         .global_batch = 128,
                         .lr = {.peak = 1e-5, .final_rate = 1e-5, .schedule = optim::Schedule::constant}};
  std::int64_t loss_chunk = 1024;
  bool recompute = true;
};
void describe(config::Binder& binder, LongContextStage& value);

struct StagesConfig {
  std::optional<AlignStage> align;
  std::optional<DistillStage> distill;
  std::optional<LongContextStage> long_context;
};
void describe(config::Binder& binder, StagesConfig& value);

}  // namespace hydra::train
