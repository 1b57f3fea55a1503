// Activation checkpointing (engineering.md A3): forward without a graph, and in backward the block once more with a
// graph on a detached input, followed by a nested backward pass that also accumulates the parameters' gradients.
#include "hydrahead/ops/recompute.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hydrahead/base/error.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Block = std::function<at::Tensor(const at::Tensor&)>;

// Carries the block from forward to backward.
struct BlockHolder : torch::CustomClassHolder {
  explicit BlockHolder(Block f) : block(std::move(f)) {}
  Block block;
};

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Block& block) {
    ctx->save_for_backward({x});
    ctx->saved_data["block"] = c10::IValue::make_capsule(c10::make_intrusive<BlockHolder>(block));
    const auto y = block(x);
    HYDRA_CHECK(!y.is_same(x) && !y.is_alias_of(x), "recompute: the block returned its input");
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto holder = c10::static_intrusive_pointer_cast<BlockHolder>(ctx->saved_data["block"].toCapsule());
    const auto saved = ctx->get_saved_variables();
    const auto x = saved[0].detach().requires_grad_(true);
    {
      const at::AutoGradMode graph(true);
      const auto y = holder->block(x);
      torch::autograd::backward({y}, {gradients[0]});
    }
    return {x.grad(), at::Tensor()};
  }
};

}  // namespace

at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& block, const at::Tensor& x) {
  if (!at::GradMode::is_enabled()) {
    return block(x);
  }
  // The node exists only if its input requires grad: with a frozen embedding the hidden state does not.
  const auto input = x.requires_grad() ? x : x.detach().requires_grad_(true);
  return Recompute::apply(input, block);
}

}  // namespace hydra::ops
