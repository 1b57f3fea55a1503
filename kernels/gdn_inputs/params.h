#pragma once
// Arguments of the kernels that make the gated delta rule's inputs from projections (method.md 4.2). Per row n, head h:
//   q = l2(RoPE(rms(q') w_q)),  k = l2(RoPE(rms(k') w_k)),  l2(x) = x (sum x^2 + 1e-6)^-1/2
//   g = -exp(A_log_h) softplus(a + dt_bias_h),  beta = c sigmoid(b + b_bias_h)
// q', k', a, b and their gradients have the type `element`; statistics and gates are fp32. Without l2, keys and gates
// (k_heads 0, A_log null), the kernels serve the queries or the keys of softmax attention: RoPE(rms(q') w_q).

#include <cstdint>

#include "kernels/head_rows.h"
#include "kernels/parameter.h"

namespace hydra::kernels {

// A [N, H] array whose rows are contiguous.
struct GateLogits {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
};

struct GdnProjections {
  std::int64_t rows = 0;     // N
  std::int32_t q_heads = 0;  // H, also of a and b
  std::int32_t k_heads = 0;
  std::int32_t size = 0;  // d, even, at most 256
  Element element = Element::bf16;
  ConstHeadRows q, k;          // [N, heads, d]
  GateLogits a, b;             // [N, H]
  Parameter q_norm, k_norm;    // [d]; absent: no RMS norm
  const float* cos = nullptr;  // [N, d/2]; null: no RoPE
  const float* sin = nullptr;
  bool l2 = true;
  const float* A_log = nullptr;    // [H]; null: no gates
  const float* dt_bias = nullptr;  // [H]
  Parameter b_bias;                // [H]
  float norm_eps = 1e-6F;
  float beta_scale = 1.0F;  // c
};

struct GdnInputsForward {
  GdnProjections in;
  void* q = nullptr;      // [N, H, d] contiguous
  void* k = nullptr;      // [N, k_heads, d]
  float* g = nullptr;     // [N, H]
  float* beta = nullptr;  // [N, H]
};

// Everything is formed again from the projections. Null gradients of parameters are not wanted.
struct GdnInputsBackward {
  GdnProjections in;
  ConstHeadRows d_q, d_k;          // of the outputs
  const float* d_g = nullptr;      // [N, H]
  const float* d_beta = nullptr;   // [N, H]
  void* d_q_projection = nullptr;  // [N, H, d] contiguous
  void* d_k_projection = nullptr;  // [N, k_heads, d]
  void* d_a = nullptr;             // [N, H]
  void* d_b = nullptr;             // [N, H]
  float* d_q_norm = nullptr;       // [d]
  float* d_k_norm = nullptr;       // [d]
  float* d_A_log = nullptr;        // [H]
  float* d_dt_bias = nullptr;      // [H]
  float* d_b_bias = nullptr;       // [H]
  void* scratch = nullptr;         // gdn_inputs_backward_scratch(in) bytes
};

}  // namespace hydra::kernels
