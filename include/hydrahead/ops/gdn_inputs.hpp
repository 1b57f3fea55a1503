#pragma once
// From projections to the gated delta rule's inputs (method.md 4.2): one kernel launch on CUDA (kernels/gdn_inputs) for
// fp32 and bf16, ATen operations else.

#include <ATen/core/Tensor.h>

namespace hydra::ops {

struct GdnParameters {
  at::Tensor q_norm, k_norm;          // [d]; both undefined: no RMS norm
  at::Tensor A_log, dt_bias, b_bias;  // [H]
};

struct GdnInputs {
  at::Tensor q, k;     // [N, H, d], [N, Hk, d]: directions, in the projections' type
  at::Tensor g, beta;  // [N, H] log decay <= 0 and write strength; fp32 (fp64 for fp64)
};

// q [N, H, d], k [N, Hk, d] (head strides are free), a, b [N, H]; cos, sin [N, d/2] fp32, undefined: no RoPE.
//   q = l2(RoPE(rms(q) q_norm)), k likewise;  g = -exp(A_log) softplus(a + dt_bias);
//   beta = beta_scale sigmoid(b + b_bias)
// Differentiable in all but the tables; the backward pass keeps only the arguments.
GdnInputs gdn_inputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& a, const at::Tensor& b,
                     const GdnParameters& parameters, const at::Tensor& cos, const at::Tensor& sin, double norm_eps,
                     double beta_scale);

}  // namespace hydra::ops
