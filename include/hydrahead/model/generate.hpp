#pragma once
// Decode state (KV of touched groups, GDN states, convolution tails), chunked prefill and sampling.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {

enum class StateType { fp32, bf16 };  // cache.state_dtype

// Makes the empty state of `sequences` sequences; memory is taken as they grow. See decode_state.hpp for the fields.
struct GenerateOptions {
  std::int64_t max_new = 128;
  double temperature = 0.0;  // 0: greedy
  std::int64_t top_k = 0;    // 0: off
  double top_p = 1.0;
  std::int64_t seed = 0;
  std::vector<std::int64_t> stop_ids;
  std::int64_t prefill_chunk = 8192;  // rows a chunk
  StateType state_type = StateType::fp32;
  bool log_scale = true;              // follows the model's log_scale.mode unless off
  // Called for each new token of each prompt; return false to stop that prompt.
  std::function<bool(std::size_t prompt, std::int32_t token)> on_token;
};

// New tokens of each prompt (the stop id is included). Prompts may have unequal lengths; a batch equals each alone.
// Polls stop_requested() between steps (throws Interrupted). Non-finite logits are an Error naming prompt and step.
std::vector<std::vector<std::int32_t>> generate(const Model& model, const std::vector<std::vector<std::int32_t>>& prompts,
                                                const GenerateOptions& options);

}  // namespace hydra::model
