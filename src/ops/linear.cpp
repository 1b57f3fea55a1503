// Linear layers. A weight of another type than the activations' (an fp32 master) is cast for each product and never
// saved in that type, so that backward casts again instead of holding a copy of every weight. The weight's gradient
// comes in the type that the weight asks for (fp32, also for a bf16 copy of a master), straight from the product's
// accumulator where the device can write it.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// dy [N, O], x [N, D] -> [O, D] of `type`.
at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x, at::ScalarType type) {
  if (x.is_cuda() && x.scalar_type() == at::kBFloat16 && type == at::kFloat) {
    return at::mm(dy.t(), x, at::kFloat);
  }
  return at::mm(dy.t(), x).to(type);
}

class Linear : public torch::autograd::Function<Linear> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& optional_bias) {
    const auto bias = tensor_or_undefined(optional_bias);
    ctx->save_for_backward({x, weight, bias});
    const auto w = weight.to(x.scalar_type());
    return bias.defined() ? at::addmm(bias.to(x.scalar_type()), x, w.t()) : at::mm(x, w.t());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& x = saved[0];
    const auto& weight = saved[1];
    const auto& bias = saved[2];
    const auto& dy = gradients[0];
    variable_list result(3);
    if (ctx->needs_input_grad(0)) {
      result[0] = at::mm(dy, weight.to(x.scalar_type()));
    }
    if (ctx->needs_input_grad(1)) {
      result[1] = weight_gradient(dy, x, gradient_type(weight));
    }
    if (bias.defined() && ctx->needs_input_grad(2)) {
      result[2] = dy.sum(0, /*keepdim=*/false, gradient_type(bias));
    }
    return result;
  }
};

// down(silu(g) * u) with g = x gate^T, u = x up^T; keeps x, g, u and forms silu(g) * u again in backward:
//   dg = da u s (1 + g (1 - s)),  du = da silu(g),  s = sigmoid(g),  da = dy down
class SwigluMlp : public torch::autograd::Function<SwigluMlp> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up,
                            const at::Tensor& down) {
    const auto type = x.scalar_type();
    const auto g = at::mm(x, gate.to(type).t());
    const auto u = at::mm(x, up.to(type).t());
    ctx->save_for_backward({x, gate, up, down, g, u});
    return at::mm(at::silu(g).mul_(u), down.to(type).t());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& x = saved[0];
    const auto& gate = saved[1];
    const auto& up = saved[2];
    const auto& down = saved[3];
    const auto& g = saved[4];
    const auto& u = saved[5];
    const auto type = x.scalar_type();
    const auto& dy = gradients[0];
    const auto silu = at::silu(g);
    variable_list result(4);
    if (ctx->needs_input_grad(3)) {
      result[3] = weight_gradient(dy, silu * u, gradient_type(down));
    }
    const auto da = at::mm(dy, down.to(type));
    const auto du = da * silu;
    const auto dg = at::silu_backward(da * u, g);
    if (ctx->needs_input_grad(0)) {
      result[0] = at::addmm(at::mm(dg, gate.to(type)), du, up.to(type));
    }
    if (ctx->needs_input_grad(1)) {
      result[1] = weight_gradient(dg, x, gradient_type(gate));
    }
    if (ctx->needs_input_grad(2)) {
      result[2] = weight_gradient(du, x, gradient_type(up));
    }
    return result;
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  HYDRA_CHECK(weight.dim() == 2 && weight.size(1) == x.size(-1), "linear: weight ", weight.sizes(), " for x ",
              x.sizes());
  if (x.dim() == 2) {
    return Linear::apply(x, weight, optional_tensor(bias));
  }
  auto shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return Linear::apply(x.reshape({-1, x.size(-1)}), weight, optional_tensor(bias)).view(shape);
}

at::Tensor swiglu_mlp(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up, const at::Tensor& down) {
  HYDRA_CHECK(x.dim() == 2 && gate.size(1) == x.size(1) && up.sizes() == gate.sizes() && down.size(1) == gate.size(0),
              "swiglu_mlp: x ", x.sizes(), ", gate ", gate.sizes(), ", up ", up.sizes(), ", down ", down.sizes());
  return SwigluMlp::apply(x, gate, up, down);
}

}  // namespace hydra::ops
