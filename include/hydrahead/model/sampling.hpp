#pragma once
// Draws the next token from one row of logits.

#include <cstdint>
#include <span>

namespace hydra::model {

struct SamplingOptions {
  double temperature = 1.0;  // > 0
  std::int64_t top_k = 0;    // 0: all
  double top_p = 1.0;        // smallest set of most likely tokens with at least this probability
};

// uniform in [0, 1). Ties are ordered by token id, so the result is a pure function of its arguments.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, double uniform);

}  // namespace hydra::model
