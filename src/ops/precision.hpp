#pragma once
// The type of statistics, states and sums for a tensor's type (overview.md section 5).

#include <ATen/core/Tensor.h>

namespace hydra::ops {

inline at::ScalarType statistics_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace hydra::ops
