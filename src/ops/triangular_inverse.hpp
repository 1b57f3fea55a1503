#pragma once
// (I + L)^-1 of strictly lower triangular matrices.

#include <ATen/core/Tensor.h>

namespace hydra::ops {

// lower [B, C, C] with zeros on and above the diagonal -> [B, C, C], unit lower triangular.
at::Tensor unit_lower_inverse(const at::Tensor& lower);

}  // namespace hydra::ops
