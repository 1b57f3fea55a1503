// Binding of kernels/gdn_inputs for one tensor of queries or keys, without L2 norm and gates.
#include <torch/csrc/autograd/custom_function.h>

#include "kernel_arguments.hpp"
#include "kernels/gdn_inputs/launch.h"
#include "norm_rotate.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x, weight, cos, sin as the kernels read them.
variable_list readable(const variable_list& saved) {
  const auto table = [](const at::Tensor& x) { return x.defined() ? x.to(at::kFloat).contiguous() : x; };
  return {unit_stride(saved[0]), stored_parameter(saved[1]), table(saved[2]), table(saved[3])};
}

kernels::GdnProjections plain_arguments(const variable_list& x, double eps) {
  kernels::GdnProjections in;
  in.rows = x[0].size(0);
  in.q_heads = static_cast<std::int32_t>(x[0].size(1));
  in.size = static_cast<std::int32_t>(x[0].size(2));
  in.element = element_of(x[0]);
  in.q = head_rows(x[0]);
  in.q_norm = parameter_of(x[1]);
  in.cos = x[2].defined() ? x[2].const_data_ptr<float>() : nullptr;
  in.sin = x[3].defined() ? x[3].const_data_ptr<float>() : nullptr;
  in.l2 = false;
  in.norm_eps = static_cast<float>(eps);
  return in;
}

class NormRotate : public torch::autograd::Function<NormRotate> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& cos, const std::optional<at::Tensor>& sin, double eps) {
    const variable_list saved{x, weight, tensor_or_undefined(cos), tensor_or_undefined(sin)};
    ctx->save_for_backward(saved);
    ctx->saved_data["eps"] = eps;
    const c10::cuda::CUDAGuard guard(x.device());
    const variable_list arguments = readable(saved);
    at::Tensor y = at::empty(x.sizes(), x.options());
    kernels::GdnInputsForward params;
    params.in = plain_arguments(arguments, eps);
    params.q = y.mutable_data_ptr();
    C10_CUDA_CHECK(kernels::launch_gdn_inputs_forward(params, current_stream(x)));
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const c10::cuda::CUDAGuard guard(x.device());
    const variable_list arguments = readable(saved);
    const at::Tensor d_y = unit_stride(gradients[0]);
    at::Tensor d_x = at::empty(x.sizes(), x.options());
    at::Tensor d_weight;
    if (saved[1].requires_grad()) {
      d_weight = at::empty(saved[1].sizes(), x.options().dtype(at::kFloat));
    }
    kernels::GdnInputsBackward params;
    params.in = plain_arguments(arguments, ctx->saved_data["eps"].toDouble());
    const at::Tensor scratch = scratch_buffer(kernels::gdn_inputs_backward_scratch(params.in), x);
    params.d_q = head_rows(d_y);
    params.d_q_projection = d_x.mutable_data_ptr();
    params.d_q_norm = float_pointer(d_weight);
    params.scratch = scratch.mutable_data_ptr();
    C10_CUDA_CHECK(kernels::launch_gdn_inputs_backward(params, current_stream(x)));
    return {d_x, d_weight.defined() ? d_weight.to(saved[1].scalar_type()) : d_weight, at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor norm_rotate_cuda(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                            double eps) {
  return NormRotate::apply(x, weight, optional_tensor(cos), optional_tensor(sin), eps);
}

}  // namespace hydra::ops
