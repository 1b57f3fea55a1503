#pragma once
// Norms, rotary embedding, gates and the MLP of the model, differentiable, statistics in fp32 (fp64 for fp64 inputs).

#include <ATen/core/Tensor.h>

#include "hydrahead/ops/sequences.hpp"

namespace hydra::ops {

// Rows ids [N] of weight [V, D], in `type`. The weight's gradient is summed in fp32 (fp64 for an fp64 weight).
at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids, at::ScalarType type);

// x W^T (+ bias). The weight may be an fp32 master while x is bf16: it is cast to x's type and its gradient comes back
// in fp32. So does that of a bf16 weight whose grad_dtype is fp32.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

// Over the last dimension: x * rsqrt(mean x^2 + eps) * weight; weight may be undefined (no channel weight).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// x * rsqrt(sum x^2 + 1e-6) over the last dimension (method.md 4.2).
at::Tensor l2_norm(const at::Tensor& x);

// Half-split rotation of x [N, H, d] by cos, sin [N, d/2] (fp32).
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

// rotate(rms_norm(x, weight, eps), cos, sin), or the norm alone without tables (both undefined): queries and keys
// x [N, H, d] of softmax attention, any head strides. One kernel launch on CUDA (kernels/gdn_inputs) for fp32 and bf16.
at::Tensor norm_rotate(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                       double eps);

// down(silu(gate x) * up x), x [N, D].
at::Tensor swiglu_mlp(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up, const at::Tensor& down);

// Depthwise causal convolution of 4 taps, no bias: x [N, C], weight [C, 4] (last tap = the current row), restarted at
// every sequence; with `silu`, y = silu of it. history [S, C, 3] holds the rows before each sequence (undefined:
// zeros); returns {y [N, C], new history}. One kernel launch on CUDA (kernels/short_conv) for fp32 and bf16.
struct ShortConvOutput {
  at::Tensor output;
  at::Tensor history;  // [S, C, 3]
};
ShortConvOutput short_conv(const at::Tensor& x, const at::Tensor& weight, const Sequences& sequences,
                           const at::Tensor& history = {}, bool silu = false);

}  // namespace hydra::ops
