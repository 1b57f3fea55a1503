// Helpers on [N, H, d] tensors of heads that every branch uses.

#include <ATen/ATen.h>

#include "attention.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {

at::Tensor wanted_rows(const at::Tensor& x, const AttentionRows& rows) {
  return rows.wanted.defined() ? x.index_select(0, rows.wanted) : x;
}

at::Tensor project_heads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t head_dim) {
  return ops::linear(x, weight, bias).view({x.size(0), -1, head_dim});
}

at::ScalarType statistics_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace hydra::model
