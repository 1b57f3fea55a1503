// Choice of the path, and the ATen path.
#include "norm_rotate.hpp"

#include <ATen/ATen.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "precision.hpp"

namespace hydra::ops {

at::Tensor norm_rotate_aten(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                            double eps) {
  const at::Tensor normed = rms_norm(x, weight, eps);
  return cos.defined() ? rotate(normed, cos, sin) : normed;
}

at::Tensor norm_rotate(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                       double eps) {
  HYDRA_CHECK(x.dim() == 3 && weight.defined() && cos.defined() == sin.defined(), "norm_rotate: x ", x.sizes());
#if HYDRA_CUDA
  if (has_kernels(x) && x.size(0) > 0 && x.size(2) % 2 == 0 && x.size(2) <= 256) {
    return norm_rotate_cuda(x, weight, cos, sin, eps);
  }
#endif
  return norm_rotate_aten(x, weight, cos, sin, eps);
}

}  // namespace hydra::ops
