#pragma once
// The two ways to the gated delta rule's inputs.

#include "hydrahead/ops/gdn_inputs.hpp"

namespace hydra::ops {

// Any device and floating type, by the ops of elementwise.hpp: the CPU path, and the kernel's reference.
GdnInputs gdn_inputs_aten(const at::Tensor& q, const at::Tensor& k, const at::Tensor& a, const at::Tensor& b,
                          const GdnParameters& parameters, const at::Tensor& cos, const at::Tensor& sin,
                          double norm_eps, double beta_scale);

// By kernels/gdn_inputs: q, k, a, b on CUDA in one type, fp32 or bf16; d even and at most 256; N > 0.
GdnInputs gdn_inputs_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& a, const at::Tensor& b,
                          const GdnParameters& parameters, const at::Tensor& cos, const at::Tensor& sin,
                          double norm_eps, double beta_scale);

}  // namespace hydra::ops
