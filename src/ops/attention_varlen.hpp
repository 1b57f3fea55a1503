#pragma once
// PyTorch's flash attention kernels over flat rows with sequence offsets (CUDA, fp16 and bf16).

#include <ATen/core/Tensor.h>

#include "hydrahead/ops/sequences.hpp"

namespace hydra::ops {

bool varlen_attention_supports(const at::Tensor& q);

// q [N, Hq, d], k and v [N, Hkv, d], Hkv divides Hq (grouped heads). Differentiable.
at::Tensor varlen_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                            const Sequences& sequences);

// q [n, Hq, d]: the last n rows of the T rows of k and v. No autograd.
at::Tensor varlen_cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale);

}  // namespace hydra::ops
