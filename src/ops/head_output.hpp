#pragma once
// The two ways to join the branches' heads.

#include "hydrahead/ops/head_output.hpp"

namespace hydra::ops {

// Any device and floating type, in ATen operations: the CPU path, and the kernel's reference.
at::Tensor fuse_heads_aten(const PlacedHeads& fa, const PlacedHeads& gdn, const at::Tensor& amplitude,
                           const HeadFusion& fusion);

// By kernels/head_output: heads and gates on CUDA in one type, fp32 or bf16, amplitudes fp32; d even and at most 256;
// at most 256 heads; N > 0.
at::Tensor fuse_heads_cuda(const PlacedHeads& fa, const PlacedHeads& gdn, const at::Tensor& amplitude,
                           const HeadFusion& fusion);

}  // namespace hydra::ops
