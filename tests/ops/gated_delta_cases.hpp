#pragma once
// Random inputs of the gated delta rule, and gradients of every input by autograd, for the CPU and GPU tests.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "hydrahead/ops/gated_delta.hpp"

namespace hydra::test {

struct DeltaCase {
  ops::Sequences sequences;
  std::array<at::Tensor, 6> x;  // q, k, v, g, beta, initial state
  double scale = 1.0;
};

inline constexpr std::array<const char*, 6> kDeltaNames = {"q", "k", "v", "g", "beta", "initial_state"};

// fp64: unit keys and queries, log decay in (-0.7, 0], beta in (0, 1).
inline DeltaCase delta_case(const std::vector<std::int64_t>& lengths, std::int64_t key_heads, std::int64_t heads,
                            std::int64_t k_size, std::int64_t v_size, std::uint64_t seed,
                            const at::Device& device = at::kCPU) {
  at::manual_seed(seed);
  const auto options = at::TensorOptions(device).dtype(at::kDouble);
  DeltaCase c;
  c.sequences = ops::make_sequences(lengths, device);
  const auto n = c.sequences.rows();
  const auto unit = [](const at::Tensor& x) { return x / x.norm(2, {-1}, true); };
  c.x[0] = unit(at::randn({n, key_heads, k_size}, options));
  c.x[1] = unit(at::randn({n, key_heads, k_size}, options));
  c.x[2] = at::randn({n, heads, v_size}, options);
  c.x[3] = at::rand({n, heads}, options).pow(4).mul(-0.7);
  c.x[4] = at::rand({n, heads}, options);
  c.x[5] = at::randn({c.sequences.count(), heads, v_size, k_size}, options) * 0.3;
  c.scale = 1.0 / std::sqrt(static_cast<double>(k_size));
  return c;
}

using DeltaRule = std::function<ops::GatedDeltaOutput(const DeltaCase&)>;

inline DeltaRule chunked_rule() {
  return [](const DeltaCase& c) {
    return ops::gated_delta(c.x[0], c.x[1], c.x[2], c.x[3], c.x[4], c.scale, c.sequences, c.x[5], true);
  };
}
inline DeltaRule recurrent_rule() {
  return [](const DeltaCase& c) {
    return ops::gated_delta_recurrent(c.x[0], c.x[1], c.x[2], c.x[3], c.x[4], c.scale, c.sequences, c.x[5]);
  };
}

struct DeltaResult {
  at::Tensor output, final_state;
  std::array<at::Tensor, 6> gradient;
};

// Values, and the gradients of <output, d_output> + <final_state, d_state>.
inline DeltaResult run_delta(const DeltaRule& rule, DeltaCase c, const at::Tensor& d_output,
                             const at::Tensor& d_state) {
  for (auto& x : c.x) {
    if (x.defined()) {
      x = x.detach().clone().requires_grad_(true);
    }
  }
  const auto y = rule(c);
  DeltaResult result{y.output.detach(), y.final_state.detach(), {}};
  torch::autograd::backward({y.output, y.final_state}, {d_output, d_state});
  for (std::size_t i = 0; i < c.x.size(); ++i) {
    if (c.x[i].defined()) {
      result.gradient[i] = c.x[i].grad();
    }
  }
  return result;
}

}  // namespace hydra::test
