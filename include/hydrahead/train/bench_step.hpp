#pragma once
// Time, arithmetic rate and memory of whole training steps, and of prefill, on random weights and tokens: the trainer's
// own loop, so what is measured is what runs. Training steps on any number of ranks.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "hydrahead/base/json.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/optim/optim_config.hpp"

namespace hydra::train {

struct BenchOptions {
  std::string stage;  // align | distill | long_context | prefill
  std::int64_t context = 4096, batch = 4;
  std::int64_t micro_batch = -1;                  // rows; -1: by the memory estimate
  std::int64_t steps = 5;                         // timed, after one warm-up step whose time is reported on its own
  optim::Shard shard = optim::Shard::none;        // over the ranks
  bool teacher_prefill = false;                   // prefill of the full-attention teacher
  bool recompute_set = false, recompute = false;  // else the stage's default
};

// "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b", "qwen3-mini", "qwen3-nano"; UserError naming them.
model::Qwen3Config bench_shape(const std::string& name);

// `hybrid`: the student, with its plan. Times are medians; model FLOPs only. All ranks call it together.
Json bench_step(const model::ModelConfig& hybrid, const BenchOptions& options, const at::Device& device,
                at::ScalarType compute_type, dist::Communicator& communicator);

// The record of bench_step as text for people.
std::string bench_text(const Json& record);

}  // namespace hydra::train
