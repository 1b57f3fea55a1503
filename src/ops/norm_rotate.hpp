#pragma once
// The two ways to the queries and keys of softmax attention.

#include <ATen/core/Tensor.h>

namespace hydra::ops {

// Any device and floating type, by rms_norm and rotate: the CPU path, and the kernel's reference.
at::Tensor norm_rotate_aten(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                            double eps);

// By kernels/gdn_inputs: x on CUDA, fp32 or bf16; d even and at most 256; N > 0.
at::Tensor norm_rotate_cuda(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                            double eps);

}  // namespace hydra::ops
