#pragma once
// Losses and logit gradients of a chunk of rows: the ATen form, and its fused CUDA form.

#include <ATen/core/Tensor.h>

#include "hydrahead/ops/chunked_loss.hpp"

namespace hydra::ops {

struct RowLosses {
  at::Tensor kl, ce;    // [rows]; kl is undefined without a teacher
  at::Tensor gradient;  // [rows, V] of (kl_weight tau^2 KL + ce_weight CE) / divisor; undefined unless wanted
};

// z and teacher_z [rows, V], fp32 or fp64, finite; the gradient has type `gradient_type`.
RowLosses row_losses(const at::Tensor& z, const at::Tensor& teacher_z, const at::Tensor& labels, double divisor,
                     const LossOptions& options, bool want_gradient, at::ScalarType gradient_type);

// The same by kernels/distill_loss on CUDA; fp32 or bf16 logits. The gradient overwrites z if it has z's type.
RowLosses row_losses_cuda(const at::Tensor& z, const at::Tensor& teacher_z, const at::Tensor& labels, double divisor,
                          const LossOptions& options, bool want_gradient, at::ScalarType gradient_type);

}  // namespace hydra::ops
