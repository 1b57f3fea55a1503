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
  HYDRA_CHECK(x.dim() == 3 && weight.defined() && weight.dim() == 1 && weight.size(0) == x.size(2), "norm_rotate: x ",
              x.sizes(), " with a norm of another size or none");
  HYDRA_CHECK(cos.defined() == sin.defined(), "norm_rotate: one of the two rotary tables");
  HYDRA_CHECK(!cos.defined() || (cos.dim() == 2 && cos.size(0) == x.size(0) && 2 * cos.size(1) == x.size(2) &&
                                 sin.sizes() == cos.sizes()),
              "norm_rotate: x ", x.sizes(), " with rotary tables of other rows or size");
#if HYDRA_CUDA
  if (has_kernels(x) && x.size(0) > 0 && x.size(2) % 2 == 0 && x.size(2) <= 256) {
    return norm_rotate_cuda(x, weight, cos, sin, eps);
  }
#endif
  return norm_rotate_aten(x, weight, cos, sin, eps);
}

}  // namespace hydra::ops
