#pragma once
// The CUDA kernels of the gated delta rule on tensors, without autograd: what ops::gated_delta and gated_delta_step run
// on a GPU, and what the benchmark times. Only in builds with CUDA.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hydrahead/ops/gated_delta.hpp"

namespace hydra::ops {

// Shapes as in gated_delta.hpp. q, k, v of one type, bf16 or fp32, with any strides whose last is 1; g, beta and states
// fp32 and contiguous; offsets [S+1] int32. All on one CUDA device.
struct GatedDeltaTensors {
  at::Tensor q, k, v, g, beta;
  at::Tensor initial_state;  // or undefined
  at::Tensor offsets;
  double scale = 1.0;
};

// The same values as the kernels of `path` take them; copies only what must be copied. Differentiable.
GatedDeltaTensors prepared_for(GatedDeltaPath path, const GatedDeltaTensors& x);

// Whether the kernels of `path` take x, once prepared. False for aten.
bool gated_delta_supports(GatedDeltaPath path, const GatedDeltaTensors& x);

// The forced path, else the fastest one that takes x; aten where none does. UserError if the forced one does not.
GatedDeltaPath gated_delta_path(const GatedDeltaTensors& x);

struct GatedDeltaForwardTensors {
  at::Tensor output;       // [N, H, V] of q's type
  at::Tensor final_state;  // [S, H, V, K] fp32; undefined unless wanted
  at::Tensor saved;        // for the backward pass; undefined unless wanted, and for the portable path
};
GatedDeltaForwardTensors gated_delta_forward(GatedDeltaPath path, const GatedDeltaTensors& x, bool want_final_state,
                                             bool want_saved);

struct GatedDeltaGradients {
  at::Tensor q, k;           // [N, H, K]: per value head, also where heads share keys
  at::Tensor v;              // [N, H, V]
  at::Tensor g, beta;        // [N, H] fp32
  at::Tensor initial_state;  // undefined without one
};
// d_output [N, H, V] of q's type; d_final_state [S, H, V, K] fp32 or undefined.
GatedDeltaGradients gated_delta_backward(GatedDeltaPath path, const GatedDeltaTensors& x, const at::Tensor& saved,
                                         const at::Tensor& d_output, const at::Tensor& d_final_state);

// A few new rows for each sequence: updates states [pool, H, V, K] in place, entry state_index[s] (int32; undefined: s)
// for sequence s, and returns the output. A negative entry skips the sequence, whose rows of the output stay undefined.
at::Tensor gated_delta_decode(const GatedDeltaTensors& x, at::Tensor& states, const at::Tensor& state_index = {});

}  // namespace hydra::ops
