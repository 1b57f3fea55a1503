// The gated delta rule by kernels as one autograd Function. It keeps its inputs and what the forward kernels save for
// the backward pass.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "gated_delta_blocks.hpp"
#include "gated_delta_function.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class GatedDeltaKernels : public torch::autograd::Function<GatedDeltaKernels> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& g, const at::Tensor& beta,
                               const std::optional<at::Tensor>& initial_state, const at::Tensor& offsets, double scale,
                               GatedDeltaPath path, bool want_final_state, bool graph) {
    const GatedDeltaTensors x{q, k, v, g, beta, tensor_or_undefined(initial_state), offsets, scale};
    const auto y = gated_delta_forward(path, x, want_final_state, graph);
    if (graph) {
      ctx->save_for_backward({x.q, x.k, x.v, x.g, x.beta, x.initial_state, x.offsets, y.saved});
      ctx->saved_data["scale"] = scale;
      ctx->saved_data["path"] = static_cast<std::int64_t>(path);
      ctx->set_materialize_grads(false);
    }
    return want_final_state ? variable_list{y.output, y.final_state} : variable_list{y.output};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto path = static_cast<GatedDeltaPath>(ctx->saved_data["path"].toInt());
    const GatedDeltaTensors x{saved[0], saved[1], saved[2], saved[3],
                              saved[4], saved[5], saved[6], ctx->saved_data["scale"].toDouble()};
    const auto d_output = gradients[0].defined() ? gradients[0] : at::zeros(x.v.sizes(), x.q.options());
    const auto d_final_state = gradients.size() > 1 ? gradients[1] : at::Tensor();
    const auto d = gated_delta_backward(path, x, saved[7], d_output, d_final_state);
    variable_list result(11);
    result[0] = sum_shared_heads(d.q, x.q);
    result[1] = sum_shared_heads(d.k, x.k);
    result[2] = d.v;
    result[3] = d.g;
    result[4] = d.beta;
    result[5] = d.initial_state;
    return result;
  }
};

}  // namespace

GatedDeltaOutput gated_delta_by_kernels(GatedDeltaPath path, const GatedDeltaTensors& x, bool want_final_state) {
  const auto y = prepared_for(path, x);
  bool graph = false;
  for (const auto& input : {y.q, y.k, y.v, y.g, y.beta, y.initial_state}) {
    graph = graph || (input.defined() && input.requires_grad());
  }
  const auto outputs = GatedDeltaKernels::apply(y.q, y.k, y.v, y.g, y.beta, optional_tensor(y.initial_state), y.offsets,
                                                y.scale, path, want_final_state, graph && at::GradMode::is_enabled());
  return {outputs[0], want_final_state ? outputs[1] : at::Tensor()};
}

}  // namespace hydra::ops
