// Row losses and logit gradients in ATen operations (method.md section 6); the CPU path and the kernel's reference.
#include "distill_loss.hpp"

#include <ATen/ATen.h>

namespace hydra::ops {

RowLosses row_losses(const at::Tensor& z, const at::Tensor& teacher_z, const at::Tensor& labels, double divisor,
                     const LossOptions& options, bool want_gradient, at::ScalarType gradient_type) {
  const auto tau = options.temperature;
  const auto column = labels.unsqueeze(1);
  const double ce_scale = options.ce_weight / divisor;
  RowLosses result;
  auto log_p = at::log_softmax(z, 1);
  result.ce = log_p.gather(1, column).squeeze(1).neg();
  at::Tensor gradient;
  if (teacher_z.defined()) {
    auto log_student = tau == 1.0 ? log_p : at::log_softmax(z / tau, 1);
    const auto log_teacher = at::log_softmax(tau == 1.0 ? teacher_z : teacher_z / tau, 1);
    const auto teacher = log_teacher.exp();
    // p log p is 0 at p = 0: masked columns (-inf logits) count nothing.
    result.kl = (log_teacher - log_student).mul_(teacher).masked_fill_(teacher == 0, 0).sum(1).mul_(tau * tau);
    if (want_gradient) {
      gradient = log_student.exp().sub_(teacher).mul_(options.kl_weight * tau / divisor);
      gradient.add_(log_p.exp_(), ce_scale);
    }
  } else if (want_gradient) {
    gradient = log_p.exp_().mul_(ce_scale);
  }
  if (want_gradient) {
    gradient.scatter_add_(1, column, at::full({1, 1}, -ce_scale, z.options()).expand_as(column));
    result.gradient = gradient.to(gradient_type);
  }
  return result;
}

}  // namespace hydra::ops
