// Helpers on [N, H, d] tensors of heads that every branch uses.

#include <ATen/ATen.h>

#include "attention.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {

at::Tensor project_heads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t head_dim) {
  return ops::linear(x, weight, bias).view({x.size(0), -1, head_dim});
}

// Views and one stack: no index tensor has to reach the device, and the backward pass is one stack as well.
at::Tensor select_heads(const at::Tensor& x, const std::vector<std::int64_t>& heads) {
  const std::vector<at::Tensor> all = x.unbind(1);
  std::vector<at::Tensor> chosen;
  chosen.reserve(heads.size());
  bool identity = heads.size() == all.size();
  for (const std::int64_t h : heads) {
    identity = identity && h == static_cast<std::int64_t>(chosen.size());
    chosen.push_back(all[h]);
  }
  return identity ? x : at::stack(chosen, 1);
}

at::ScalarType statistics_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace hydra::model
