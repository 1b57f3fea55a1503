#pragma once
// One block of the chunked gated delta rule, forward and backward, in batched ATen products (kernels.md section 1).
// B = chunks of the block times heads; tensors are packed (gated_delta_layout.hpp). States are V-first.

#include <ATen/core/Tensor.h>

#include "gated_delta_layout.hpp"

namespace hydra::ops {

struct BlockInput {
  at::Tensor q, k, v;  // [B, C, K], [B, C, K], [B, C, V]
  at::Tensor g, beta;  // [B, C, 1]
};

// What the forward pass computes and the backward pass reads.
struct BlockForward {
  at::Tensor gamma;    // [B, C, 1] exp(G)
  at::Tensor rest;     // [B, C, 1] exp(G_C - G)
  at::Tensor decay;    // [B, 1, 1] exp(G_C)
  at::Tensor inverse;  // [B, C, C] R = Gamma * A
  at::Tensor kk;       // [B, C, C] N = strict_lower(Gamma * K K^T)
  at::Tensor p;        // [B, C, C] P = s Gamma * Q K^T
  at::Tensor mask;     // [B, C, C] Gamma
  at::Tensor w, u;     // [B, C, V]
  at::Tensor states;   // [B, V, K] state at the start of each chunk
};

struct BlockGradient {
  at::Tensor q, k, v, g, beta;  // packed like BlockInput
};

// Advances running [S H, V, K] (sequences in the layout's order) over the block.
BlockForward block_forward(const BlockInput& x, double scale, const ChunkLayout& layout, const ChunkBlock& block,
                           at::Tensor& running);
// O [B, C, V] of a block.
at::Tensor block_output(const BlockInput& x, const BlockForward& f, double scale);
// d_output [B, C, V]. d_running [S H, V, K]: on entry the gradient of the states after the block, on exit of those
// before.
BlockGradient block_backward(const BlockInput& x, const BlockForward& f, const at::Tensor& d_output, double scale,
                             const ChunkLayout& layout, const ChunkBlock& block, at::Tensor& d_running);

}  // namespace hydra::ops
