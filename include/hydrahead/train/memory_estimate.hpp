#pragma once
// Memory of a stage on one device of a data-parallel job, from shapes alone (engineering.md A2, A3): printed before a
// run, and the base of `micro_batch: auto`. Activations follow the tensors that the layers keep for their backward
// pass.

#include <cstdint>
#include <string>

#include "hydrahead/train/stage.hpp"

namespace hydra::train {

struct MemoryEstimate {                     // bytes
  std::int64_t weights = 0;                 // fp32 masters of the student, and the copies that it computes with
  std::int64_t gradients = 0, moments = 0;  // of the trained part
  std::int64_t teacher = 0;
  std::int64_t activations = 0;  // that one micro-batch keeps for its backward pass
  std::int64_t temporaries = 0;  // the most that one layer or the loss needs besides
  std::int64_t total() const { return weights + gradients + moments + teacher + activations + temporaries; }
};

struct Sharding {
  optim::Shard shard = optim::Shard::none;
  int ranks = 1;
};

struct ParameterCounts {
  std::int64_t all = 0, trained = 0, teacher = 0;
};
// teacher: the elements of the model that `hybrid` was converted from; 0 if the stage needs none.
ParameterCounts parameter_counts(const model::ModelConfig& hybrid, const Stage& stage);

// compute_bytes: of an activation element, and of a teacher weight: 2 for bf16 (with the CUDA kernels), 4 for fp32.
MemoryEstimate estimate_memory(const model::ModelConfig& hybrid, const Stage& stage, std::int64_t micro_batch,
                               std::int64_t compute_bytes, const Sharding& sharding = {});

// Bytes of one checkpoint within a stage: fp32 weights and two moments of what is trained.
std::int64_t checkpoint_bytes(const ParameterCounts& counts);

// Rows of a micro-batch: the configured number, or for `auto` the most that fit into 9/10 of the device's memory and
// 65,536 tokens (CPU: 4,096 tokens, whatever the memory), evenly cut. UserError naming the levers if not even one row
// fits.
std::int64_t choose_micro_batch(const model::ModelConfig& hybrid, const Stage& stage, const Sharding& sharding,
                                std::int64_t compute_bytes, bool cpu, std::int64_t memory_bytes);

std::string memory_table(const MemoryEstimate& estimate);  // a line a part

}  // namespace hydra::train
