#pragma once
// Causal softmax attention over flat rows with sequence boundaries; statistics in fp32.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hydrahead/ops/sequences.hpp"

namespace hydra::ops {

// q [N, Hq, d], k and v [N, Hkv, d] -> [N, Hq, d]. kv_index[h] = KV head of query head h (any map, method.md 4.1).
// scale multiplies q k^T. Differentiable. Logs the back end once. No [T, T] tensor is formed on CUDA; on the CPU the
// fused SDPA kernel is used.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<std::int64_t>& kv_index, double scale, const Sequences& sequences);

// One sequence with a cache: q [n, Hq, d] are the last n of T positions, k and v [T, Hkv, d] all of them (no autograd).
at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<std::int64_t>& kv_index, double scale);

}  // namespace hydra::ops
