#pragma once
// The gated delta rule, chunked, with its analytic backward (kernels.md section 1): the ONE seam behind which CUDA
// kernels (gated_delta_cuda.hpp) replace the ATen algorithm, which is the CPU's, fp64's and the reference.
// Flat rows: N = total tokens, H heads, K/V head sizes, S sequences.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "hydrahead/ops/sequences.hpp"

namespace hydra::ops {

// Algorithms on CUDA: batched ATen products, or kernels/gated_delta on CUDA cores, by mma.sync or by wgmma.
enum class GatedDeltaPath : std::int32_t { aten, portable, mma, wgmma };

// Fixes the path of the process on CUDA; nullopt (the start): the fastest that takes the input. A call that the forced
// path does not take is a UserError. The path in use is logged once.
void force_gated_delta_path(std::optional<GatedDeltaPath> path);
const char* name_of(GatedDeltaPath path);

struct GatedDeltaOutput {
  at::Tensor output;       // [N, H, V], dtype of q
  at::Tensor final_state;  // [S, H, V, K] fp32 (fp64 for fp64 inputs), V-first; undefined unless wanted
};

// q, k [N, Hk, K] (unit length unless a test says otherwise; scale is applied to q here), v [N, H, V] with H a multiple
// of Hk, g [N, H] log decay <= 0 and beta [N, H] (fp32; fp64 for fp64 inputs), initial_state [S, H, V, K] or undefined.
// Per sequence and head: S <- exp(g) S; u = beta (v - S^T k); S <- S + k u^T; o = scale S^T q. Differentiable in all
// tensor inputs. Memory grows with chunks of 64 rows, not with rows.
GatedDeltaOutput gated_delta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                             const at::Tensor& beta, double scale, const Sequences& sequences,
                             const at::Tensor& initial_state = {}, bool want_final_state = false);

// The per-token recurrence, differentiable by autograd: reference for tests, and the step of decoding.
GatedDeltaOutput gated_delta_recurrent(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const at::Tensor& g, const at::Tensor& beta, double scale,
                                       const Sequences& sequences, const at::Tensor& initial_state = {});

// One or a few new rows a sequence with a cached state (no autograd): picks the recurrence for short steps.
// Same arguments as gated_delta; always returns the final state, which may take over the storage of initial_state.
GatedDeltaOutput gated_delta_step(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                                  const at::Tensor& beta, double scale, const Sequences& sequences,
                                  const at::Tensor& initial_state);

// What a part of a sequence does to any state before it, for parts on several GPUs (kernels.md section 4):
// S_end = S_start transition + state, by row vectors of V-first states.
struct GatedDeltaSummary {
  at::Tensor state;       // [S, H, V, K] fp32 (fp64 for fp64 inputs): the final state from zero
  at::Tensor transition;  // [S, H, K, K]: row r is the final state from the r-th unit vector, with v = 0
  at::Tensor log_decay;   // [S, H]: sum of g; the transition's norm is at most its exponential if beta is at most 2
};

// Arguments as for gated_delta; no autograd. Two passes of the scan.
GatedDeltaSummary gated_delta_summary(const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                                      const at::Tensor& beta, const Sequences& sequences);

}  // namespace hydra::ops
