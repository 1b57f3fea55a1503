// Rotary embedding, half-split form (Qwen3): y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin. The backward pass is the
// rotation by the opposite angle, so only the tables are kept.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double sign) {
  const auto type = statistics_type(x);
  const auto half = x.size(-1) / 2;
  const auto wide = x.to(type);
  const auto x1 = wide.narrow(-1, 0, half);
  const auto x2 = wide.narrow(-1, half, half);
  const auto c = cos.to(type).unsqueeze(1);
  const auto s = sin.to(type).unsqueeze(1);
  auto y = at::empty(x.sizes(), wide.options());
  auto y1 = y.narrow(-1, 0, half);
  auto y2 = y.narrow(-1, half, half);
  at::mul_out(y1, x1, c).addcmul_(x2, s, -sign);
  at::mul_out(y2, x2, c).addcmul_(x1, s, sign);
  return y.to(x.scalar_type());
}

class Rotate : public torch::autograd::Function<Rotate> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    return rotated(x, cos, sin, 1);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    return {rotated(gradients[0], saved[0], saved[1], -1), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  HYDRA_CHECK(x.dim() == 3 && cos.dim() == 2 && cos.size(0) == x.size(0) && 2 * cos.size(1) == x.size(2) &&
                  sin.sizes() == cos.sizes(),
              "rotate: x ", x.sizes(), ", cos ", cos.sizes(), ", sin ", sin.sizes());
  return Rotate::apply(x, cos, sin);
}

}  // namespace hydra::ops
