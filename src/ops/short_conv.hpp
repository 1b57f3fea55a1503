#pragma once
// The two ways through the short convolution; arguments as ops::short_conv.

#include "hydrahead/ops/elementwise.hpp"

namespace hydra::ops {

// Any device and floating type, in ATen operations: the CPU path, and the kernel's reference.
ShortConvOutput short_conv_aten(const at::Tensor& x, const at::Tensor& weight, const Sequences& sequences,
                                const at::Tensor& history, bool silu);

// By kernels/short_conv: x on CUDA, fp32 or bf16, N > 0. Not differentiable in the history, nor through the new one.
ShortConvOutput short_conv_cuda(const at::Tensor& x, const at::Tensor& weight, const Sequences& sequences,
                                const at::Tensor& history, bool silu);

}  // namespace hydra::ops
