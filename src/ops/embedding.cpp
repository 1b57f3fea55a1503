// The embedding lookup, with the weight's gradient summed in the type that the weight asks for: torch's own would sum
// the gradient of a bf16 weight in bf16.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hydrahead/ops/elementwise.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Embedding : public torch::autograd::Function<Embedding> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight, const at::Tensor& ids,
                            at::ScalarType type) {
    ctx->save_for_backward({ids});
    ctx->saved_data["rows"] = weight.size(0);
    ctx->saved_data["type"] = gradient_type(weight);
    return at::embedding(weight, ids).to(type);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto type = ctx->saved_data["type"].toScalarType();
    return {at::embedding_dense_backward(gradients[0].to(type), ctx->get_saved_variables()[0],
                                         ctx->saved_data["rows"].toInt(), /*padding_idx=*/-1,
                                         /*scale_grad_by_freq=*/false),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids, at::ScalarType type) {
  return Embedding::apply(weight, ids, type);
}

}  // namespace hydra::ops
