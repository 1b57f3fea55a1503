// Row losses and logit gradients in ATen operations (method.md section 6); the CPU path and the kernel's reference.
#include "distill_loss.hpp"

#include <ATen/ATen.h>

namespace hydra::ops {

RowLosses row_losses(const at::Tensor& z, const at::Tensor& teacher_z, const at::Tensor& labels, double divisor,
                     const LossOptions& options, bool want_gradient, at::ScalarType gradient_type) {
  const auto tau = options.temperature;
  const auto column = labels.unsqueeze(1);
  const double ce_scale = options.ce_weight / divisor;
  const double kl_scale = options.kl_weight * tau / divisor;
  const auto log_p = at::log_softmax(z, 1);
  RowLosses result;
  result.ce = log_p.gather(1, column).squeeze(1).neg();
  if (!teacher_z.defined()) {
    if (want_gradient) {
      result.gradient = log_p.exp().mul_(ce_scale);
    }
  } else {
    const bool tempered = tau != 1.0;
    const auto log_student = tempered ? at::log_softmax(z / tau, 1) : log_p;
    const auto log_teacher = at::log_softmax(tempered ? teacher_z / tau : teacher_z, 1);
    auto teacher = log_teacher.exp();
    result.kl = (log_teacher - log_student).mul_(teacher).sum(1).mul_(tau * tau);
    if (want_gradient) {
      result.gradient = teacher.mul_(-kl_scale).add_(log_student.exp(), tempered ? kl_scale : kl_scale + ce_scale);
      if (tempered) {
        result.gradient.add_(log_p.exp(), ce_scale);
      }
    }
  }
  if (want_gradient) {
    result.gradient.scatter_add_(1, column, at::full({1, 1}, -ce_scale, z.options()).expand_as(column));
    result.gradient = result.gradient.to(gradient_type);
  }
  return result;
}

}  // namespace hydra::ops
