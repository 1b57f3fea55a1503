#pragma once
// The chunked gated delta rule in ATen with its block size given: what gated_delta calls, and what tests vary; and what
// it shares with the CUDA kernels' binding.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hydrahead/ops/gated_delta.hpp"

namespace hydra::ops {

inline constexpr std::int64_t kBlockBytes = std::int64_t{512} << 20;  // workspace of one block

// Chunks a block may hold within kBlockBytes.
std::int64_t default_block_chunks(std::int64_t heads, std::int64_t k_size, std::int64_t v_size, std::int64_t element);

GatedDeltaOutput gated_delta_in_blocks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const at::Tensor& g, const at::Tensor& beta, double scale,
                                       const Sequences& sequences, const at::Tensor& initial_state,
                                       bool want_final_state, std::int64_t block_chunks);

// Gradients of heads that share a key head: [N, H, K] -> [N, Hk, K] of `like`, in its type, summed in fp32 (fp64).
at::Tensor sum_shared_heads(const at::Tensor& d, const at::Tensor& like);

// ops::gated_delta by ATen.
GatedDeltaOutput gated_delta_aten(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                                  const at::Tensor& beta, double scale, const Sequences& sequences,
                                  const at::Tensor& initial_state, bool want_final_state);

void check_gated_delta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                       const at::Tensor& beta, const Sequences& sequences, const at::Tensor& initial_state);

}  // namespace hydra::ops
