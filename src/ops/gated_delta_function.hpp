#pragma once
// The autograd Function over the CUDA kernels of the gated delta rule, and the path that was forced.

#include <optional>

#include "hydrahead/ops/gated_delta_cuda.hpp"

namespace hydra::ops {

std::optional<GatedDeltaPath> forced_gated_delta_path();

// gated_delta by the kernels of `path`, which takes x.
GatedDeltaOutput gated_delta_by_kernels(GatedDeltaPath path, const GatedDeltaTensors& x, bool want_final_state);

}  // namespace hydra::ops
