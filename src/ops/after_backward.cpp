// The identity as an autograd Function. Autograd runs what is ready in the order of creation, the latest first, and
// accumulation into leaves before everything else, so nodes made after this one are done when its turn comes.
#include "hydrahead/ops/after_backward.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Callback : torch::CustomClassHolder {
  explicit Callback(std::function<void()> f) : call(std::move(f)) {}
  std::function<void()> call;
};

class AfterBackward : public torch::autograd::Function<AfterBackward> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const c10::intrusive_ptr<Callback>& reached) {
    ctx->saved_data["reached"] = c10::IValue::make_capsule(reached);
    return x.view_as(x);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    c10::static_intrusive_pointer_cast<Callback>(ctx->saved_data["reached"].toCapsule())->call();
    return {gradients[0], at::Tensor()};
  }
};

}  // namespace

at::Tensor after_backward(const at::Tensor& x, std::function<void()> reached) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) {
    return x;
  }
  return AfterBackward::apply(x, c10::make_intrusive<Callback>(std::move(reached)));
}

}  // namespace hydra::ops
