// Binding of kernels/distill_loss: checks the tensors and fills the kernel's parameters.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "distill_loss.hpp"
#include "hydrahead/base/error.hpp"
#include "kernels/distill_loss/launch.h"

namespace hydra::ops {
namespace {

kernels::Element element_of(at::ScalarType type) {
  HYDRA_CHECK(type == at::kFloat || type == at::kBFloat16, "the loss kernel takes fp32 or bf16, not ", type);
  return type == at::kFloat ? kernels::Element::fp32 : kernels::Element::bf16;
}

}  // namespace

RowLosses row_losses_cuda(const at::Tensor& z, const at::Tensor& teacher_z, const at::Tensor& labels, double divisor,
                          const LossOptions& options, bool want_gradient, at::ScalarType gradient_type) {
  const c10::cuda::CUDAGuard guard(z.device());
  HYDRA_CHECK(z.is_cuda() && z.dim() == 2 && z.is_contiguous() && labels.is_contiguous() &&
                  labels.scalar_type() == at::kLong && labels.size(0) == z.size(0) && labels.device() == z.device(),
              "loss kernel: logits ", z.sizes(), " on ", z.device().str(), ", labels ", labels.sizes());
  HYDRA_CHECK(!teacher_z.defined() || (teacher_z.sizes() == z.sizes() && teacher_z.is_contiguous() &&
                                       teacher_z.scalar_type() == z.scalar_type() && teacher_z.device() == z.device()),
              "loss kernel: the teacher's logits must be like the student's");
  HYDRA_CHECK(z.size(0) <= std::numeric_limits<std::int32_t>::max(), "loss kernel: ", z.size(0), " rows");
  const auto row_options = z.options().dtype(at::kFloat);
  RowLosses result;
  result.ce = at::empty({z.size(0)}, row_options);
  if (teacher_z.defined()) {
    result.kl = at::empty({z.size(0)}, row_options);
  }
  if (want_gradient) {
    result.gradient = gradient_type == z.scalar_type() ? z : at::empty(z.sizes(), z.options().dtype(gradient_type));
  }
  const kernels::KlCeParams params{
      .student = z.const_data_ptr(),
      .teacher = teacher_z.defined() ? teacher_z.const_data_ptr() : nullptr,
      .labels = labels.const_data_ptr<std::int64_t>(),
      .kl = result.kl.defined() ? result.kl.mutable_data_ptr<float>() : nullptr,
      .ce = result.ce.mutable_data_ptr<float>(),
      .gradient = want_gradient ? result.gradient.mutable_data_ptr() : nullptr,
      .rows = z.size(0),
      .columns = z.size(1),
      .temperature = static_cast<float>(options.temperature),
      .kl_scale = static_cast<float>(options.kl_weight * options.temperature / divisor),
      .ce_scale = static_cast<float>(options.ce_weight / divisor),
      .logits = element_of(z.scalar_type()),
      .gradients = element_of(want_gradient ? gradient_type : z.scalar_type()),
  };
  C10_CUDA_CHECK(kernels::launch_kl_ce(params, c10::cuda::getCurrentCUDAStream(z.device().index())));
  return result;
}

}  // namespace hydra::ops
