// Binding of kernels/gdn_inputs with its autograd Function: keeps the projections and parameters, and in the backward
// pass forms everything again.
#include <torch/csrc/autograd/custom_function.h>

#include "gdn_inputs.hpp"
#include "kernel_arguments.hpp"
#include "kernels/gdn_inputs/launch.h"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the kernels read, as tensors that stay alive over the launch.
struct Arguments {
  at::Tensor q, k, a, b, q_norm, k_norm, A_log, dt_bias, b_bias, cos, sin;
  double norm_eps = 0.0, beta_scale = 1.0;

  kernels::GdnProjections plain() const {
    const auto logits = [](const at::Tensor& x) { return kernels::GateLogits{x.const_data_ptr(), x.stride(0)}; };
    kernels::GdnProjections in;
    in.rows = q.size(0);
    in.q_heads = static_cast<std::int32_t>(q.size(1));
    in.k_heads = static_cast<std::int32_t>(k.size(1));
    in.size = static_cast<std::int32_t>(q.size(2));
    in.element = element_of(q);
    in.q = head_rows(q);
    in.k = head_rows(k);
    in.a = logits(a);
    in.b = logits(b);
    in.q_norm = parameter_of(q_norm);
    in.k_norm = parameter_of(k_norm);
    in.cos = cos.defined() ? cos.const_data_ptr<float>() : nullptr;
    in.sin = sin.defined() ? sin.const_data_ptr<float>() : nullptr;
    in.A_log = A_log.const_data_ptr<float>();
    in.dt_bias = dt_bias.const_data_ptr<float>();
    in.b_bias = parameter_of(b_bias);
    in.norm_eps = static_cast<float>(norm_eps);
    in.beta_scale = static_cast<float>(beta_scale);
    return in;
  }
};

// `saved` in the order of save_for_backward below.
Arguments arguments_of(const variable_list& saved, double norm_eps, double beta_scale) {
  const auto fp32 = [](const at::Tensor& x) { return x.defined() ? x.to(at::kFloat).contiguous() : x; };
  return {unit_stride(saved[0]),
          unit_stride(saved[1]),
          unit_stride(saved[2]),
          unit_stride(saved[3]),
          stored_parameter(saved[4]),
          stored_parameter(saved[5]),
          fp32(saved[6]),
          fp32(saved[7]),
          stored_parameter(saved[8]),
          fp32(saved[9]),
          fp32(saved[10]),
          norm_eps,
          beta_scale};
}

class GdnInputsFunction : public torch::autograd::Function<GdnInputsFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& a,
                               const at::Tensor& b, const std::optional<at::Tensor>& q_norm,
                               const std::optional<at::Tensor>& k_norm, const at::Tensor& A_log,
                               const at::Tensor& dt_bias, const at::Tensor& b_bias,
                               const std::optional<at::Tensor>& cos, const std::optional<at::Tensor>& sin,
                               double norm_eps, double beta_scale) {
    const variable_list saved{q,
                              k,
                              a,
                              b,
                              tensor_or_undefined(q_norm),
                              tensor_or_undefined(k_norm),
                              A_log,
                              dt_bias,
                              b_bias,
                              tensor_or_undefined(cos),
                              tensor_or_undefined(sin)};
    ctx->save_for_backward(saved);
    ctx->saved_data["norm_eps"] = norm_eps;
    ctx->saved_data["beta_scale"] = beta_scale;
    const c10::cuda::CUDAGuard guard(q.device());
    const Arguments arguments = arguments_of(saved, norm_eps, beta_scale);
    const auto gates = q.options().dtype(at::kFloat);
    at::Tensor q_out = at::empty(q.sizes(), q.options()), k_out = at::empty(k.sizes(), k.options());
    at::Tensor g = at::empty(a.sizes(), gates), beta = at::empty(a.sizes(), gates);
    const kernels::GdnInputsForward params{arguments.plain(), q_out.mutable_data_ptr(), k_out.mutable_data_ptr(),
                                           float_pointer(g), float_pointer(beta)};
    C10_CUDA_CHECK(kernels::launch_gdn_inputs_forward(params, current_stream(q)));
    return {q_out, k_out, g, beta};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& q = saved[0];
    const c10::cuda::CUDAGuard guard(q.device());
    const Arguments arguments =
        arguments_of(saved, ctx->saved_data["norm_eps"].toDouble(), ctx->saved_data["beta_scale"].toDouble());
    const at::Tensor d_q = unit_stride(gradients[0]), d_k = unit_stride(gradients[1]);
    const at::Tensor d_g = gradients[2].contiguous(), d_beta = gradients[3].contiguous();
    variable_list result(13);
    for (const std::size_t i : {0, 1, 2, 3}) {
      result[i] = at::empty(saved[i].sizes(), saved[i].options());
    }
    std::array<at::Tensor, 9> sums;  // of the parameters, at the places of `saved`
    for (const std::size_t i : {4, 5, 6, 7, 8}) {
      if (saved[i].defined() && saved[i].requires_grad()) {
        sums[i] = at::empty(saved[i].sizes(), q.options().dtype(at::kFloat));
      }
    }
    kernels::GdnInputsBackward params;
    params.in = arguments.plain();
    const at::Tensor scratch = scratch_buffer(kernels::gdn_inputs_backward_scratch(params.in), q);
    params.d_q = head_rows(d_q);
    params.d_k = head_rows(d_k);
    params.d_g = d_g.const_data_ptr<float>();
    params.d_beta = d_beta.const_data_ptr<float>();
    params.d_q_projection = result[0].mutable_data_ptr();
    params.d_k_projection = result[1].mutable_data_ptr();
    params.d_a = result[2].mutable_data_ptr();
    params.d_b = result[3].mutable_data_ptr();
    params.d_q_norm = float_pointer(sums[4]);
    params.d_k_norm = float_pointer(sums[5]);
    params.d_A_log = float_pointer(sums[6]);
    params.d_dt_bias = float_pointer(sums[7]);
    params.d_b_bias = float_pointer(sums[8]);
    params.scratch = scratch.mutable_data_ptr();
    C10_CUDA_CHECK(kernels::launch_gdn_inputs_backward(params, current_stream(q)));
    for (const std::size_t i : {4, 5, 6, 7, 8}) {
      if (sums[i].defined()) {
        result[i] = sums[i].to(saved[i].scalar_type());
      }
    }
    return result;
  }
};

}  // namespace

GdnInputs gdn_inputs_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& a, const at::Tensor& b,
                          const GdnParameters& parameters, const at::Tensor& cos, const at::Tensor& sin,
                          double norm_eps, double beta_scale) {
  const auto outputs = GdnInputsFunction::apply(
      q, k, a, b, optional_tensor(parameters.q_norm), optional_tensor(parameters.k_norm), parameters.A_log,
      parameters.dt_bias, parameters.b_bias, optional_tensor(cos), optional_tensor(sin), norm_eps, beta_scale);
  return {outputs[0], outputs[1], outputs[2], outputs[3]};
}

}  // namespace hydra::ops
