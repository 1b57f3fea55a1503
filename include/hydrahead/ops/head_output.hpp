#pragma once
// The heads of both branches, gated, normalised, scaled and joined (method.md 4.3): one kernel launch on CUDA
// (kernels/head_output) for fp32 and bf16, ATen operations else.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hydra::ops {

enum class GateActivation { sigmoid, silu };

// A branch's heads in packed order, and the logits of its output gate.
struct BranchHeads {
  at::Tensor heads;  // O_h [N, h, d]; undefined: the branch has none
  at::Tensor gate;   // z [N, h, d], headwise [N, h, 1]; undefined: no gate
  GateActivation activation = GateActivation::sigmoid;
};

// sigmoid(z) or silu(z); undefined without a gate.
at::Tensor gate_values(const BranchHeads& branch);

struct HeadFusion {
  bool normalize = true;    // RMS norm of each head
  bool gate_first = false;  // the gate before the norm
  double eps = 1e-6;
};

// A branch and the place of each of its heads in the original order.
struct PlacedHeads {
  BranchHeads branch;
  const std::vector<std::int64_t>& places;
};

// y [N, H, d] in original order. With amplitudes ([H], or [N, H] a row; fp32 or fp64 as the statistics):
//   y_h = amplitude_h RMSNorm(O_h) gate_h     (gate_first: amplitude_h RMSNorm(O_h gate_h))
// and without (undefined; then nothing is normalised): y_h = O_h 2 gate_h, or O_h where there is no gate.
at::Tensor fuse_heads(const PlacedHeads& fa, const PlacedHeads& gdn, const at::Tensor& amplitude,
                      const HeadFusion& fusion);

// x [N, H, ...] -> [N, heads.size(), ...]; heads may repeat.
at::Tensor select_heads(const at::Tensor& x, const std::vector<std::int64_t>& heads);

}  // namespace hydra::ops
