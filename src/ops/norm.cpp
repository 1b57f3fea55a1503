// RMS and L2 normalisation over the last dimension with an analytic backward:
//   y = r x w,  r = (sum x^2 / m + eps)^-1/2;   dx = r (w dy) - x (r^3 / m) sum(x w dy),   dw = sum_rows r x dy
// with m = size for RMS and m = 1 for L2. Only x and r are kept; statistics in fp32 (fp64 for fp64 inputs).
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Normalize : public torch::autograd::Function<Normalize> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const std::optional<at::Tensor>& channel_weight,
                            double m, double eps) {
    const auto weight = tensor_or_undefined(channel_weight);
    const auto type = statistics_type(x);
    const auto wide = x.to(type);
    const auto r = wide.square().sum(-1, /*keepdim=*/true).div_(m).add_(eps).rsqrt_();
    auto y = wide * r;
    if (weight.defined()) {
      y.mul_(weight.to(type));
    }
    ctx->save_for_backward({x, weight, r});
    ctx->saved_data["m"] = m;
    return y.to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& x = saved[0];
    const auto& weight = saved[1];
    const auto& r = saved[2];
    const auto type = r.scalar_type();
    const auto wide = x.to(type);
    const auto dy = gradients[0].to(type);
    variable_list result(4);
    if (weight.defined() && ctx->needs_input_grad(1)) {
      result[1] = (dy * wide).mul_(r).reshape({-1, x.size(-1)}).sum(0).to(weight.scalar_type());
    }
    if (ctx->needs_input_grad(0)) {
      const auto scaled = weight.defined() ? dy * weight.to(type) : dy;
      const auto projection =
          (wide * scaled).sum(-1, /*keepdim=*/true).mul_(r.square()).div_(ctx->saved_data["m"].toDouble());
      result[0] = at::addcmul(scaled, wide, projection, -1).mul_(r).to(x.scalar_type());
    }
    return result;
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  HYDRA_CHECK(!weight.defined() || (weight.dim() == 1 && weight.size(0) == x.size(-1)), "norm weight ", weight.sizes(),
              " for rows of ", x.size(-1));
  return Normalize::apply(x, optional_tensor(weight), static_cast<double>(x.size(-1)), eps);
}

at::Tensor l2_norm(const at::Tensor& x) { return Normalize::apply(x, optional_tensor({}), 1.0, 1e-6); }

}  // namespace hydra::ops
