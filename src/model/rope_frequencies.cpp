// Inverse RoPE frequencies as transformers computes them, in fp32 and in the same order of operations: plain, and YaRN
// (arXiv 2309.00071) with the factor as given.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {
namespace {

// The (fractional) dimension whose wave turns `rotations` times over the original window.
double correction_dim(double rotations, const RopeConfig& rope, std::int64_t head_dim) {
  return static_cast<double>(head_dim) *
         std::log(static_cast<double>(rope.original_max_position) / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(rope.theta));
}

}  // namespace

RopeFrequencies rope_frequencies(const Qwen3Config& config) {
  const RopeConfig& rope = config.rope;
  const std::int64_t d = config.head_dim;
  const auto fp32 = at::TensorOptions().dtype(at::kFloat);
  const at::Tensor exponents = at::arange(0, d, 2, at::TensorOptions().dtype(at::kLong)).to(at::kFloat) / d;
  const at::Tensor powers = at::pow(at::Scalar(rope.theta), exponents);
  RopeFrequencies result{at::reciprocal(powers), 1.0};
  if (rope.type == "yarn") {
    const double low = std::max(std::floor(correction_dim(rope.beta_fast, rope, d)), 0.0);
    double high = std::min(std::ceil(correction_dim(rope.beta_slow, rope, d)), static_cast<double>(d - 1));
    if (low == high) {
      high += 0.001;
    }
    const at::Tensor ramp = ((at::arange(d / 2, fp32) - low) / (high - low)).clamp(0, 1);
    const at::Tensor kept = 1 - ramp;  // 1: the frequency stays, 0: it is divided by the factor
    const at::Tensor interpolated = at::reciprocal(powers * rope.factor);
    result.inverse = interpolated * (1 - kept) + result.inverse * kept;
    result.attention_factor = rope.attention_factor > 0 ? rope.attention_factor
                              : rope.factor > 1         ? 0.1 * std::log(rope.factor) + 1.0
                                                        : 1.0;
  }
  return result;
}

}  // namespace hydra::model
