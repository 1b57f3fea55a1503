#pragma once
// Text generation over token ids: chunked prefill, batched decoding with a cache, sampling.

#include <cstdint>
#include <functional>
#include <vector>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {

enum class StateType { fp32, bf16 };  // cache.state_dtype

struct GenerateOptions {
  std::int64_t max_new = 128;
  std::vector<std::int64_t> budgets;  // a limit for each prompt; empty: max_new for all
  double temperature = 0.0;           // 0: greedy
  std::int64_t top_k = 0;             // 0: off
  double top_p = 1.0;
  std::uint64_t seed = 0;  // draws depend on (seed, prompt's index, step) only
  std::vector<std::int64_t> stop_ids;
  std::int64_t prefill_chunk = 8192;  // rows of prompts in one pass; on a CPU, a pass a thread
  StateType state_type = StateType::fp32;
  bool log_scale = true;  // false: off even where the model's log_scale.mode has it at inference
  // Called for each new token; return false to end that prompt.
  std::function<bool(std::size_t prompt, std::int32_t token)> on_token;
};

// The new tokens of each prompt, a stop id included. Prompts may have unequal lengths; a batch gives what each prompt
// gives alone. Polls stop_requested() between steps (throws Interrupted). UserError: an empty prompt or an id outside
// the vocabulary; Error: logits that are not finite, naming prompt and step.
std::vector<std::vector<std::int32_t>> generate(const Model& model,
                                                const std::vector<std::vector<std::int32_t>>& prompts,
                                                const GenerateOptions& options);

// Whether the model scales its FA queries at inference (log_scale.mode is not off).
bool log_scale_at_inference(const Model& model);

}  // namespace hydra::model
