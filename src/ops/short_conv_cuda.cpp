// Binding of kernels/short_conv with its autograd Function: keeps x, the weight and the history.
#include <torch/csrc/autograd/custom_function.h>

#include "kernel_arguments.hpp"
#include "kernels/short_conv/launch.h"
#include "precision.hpp"
#include "short_conv.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x, weight and history as the kernels read them (unit_stride, stored_parameter, x's type).
kernels::ShortConv plain_arguments(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& history,
                                   const at::Tensor& offsets, bool silu) {
  HYDRA_CHECK(offsets.scalar_type() == at::kInt && offsets.device() == x.device(), "short_conv: offsets ",
              offsets.scalar_type(), " on ", offsets.device().str());
  kernels::ShortConv in;
  in.rows = x.size(0);
  in.channels = x.size(1);
  in.sequences = static_cast<std::int32_t>(offsets.size(0) - 1);
  in.offsets = offsets.const_data_ptr<std::int32_t>();
  in.element = element_of(x);
  in.x = x.const_data_ptr();
  in.row_stride = x.stride(0);
  in.weight = parameter_of(weight);
  in.history = history.defined() ? history.const_data_ptr() : nullptr;
  in.silu = silu;
  return in;
}

class ShortConvFunction : public torch::autograd::Function<ShortConvFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                               const std::optional<at::Tensor>& history, const at::Tensor& offsets, bool silu) {
    const c10::cuda::CUDAGuard guard(x.device());
    const at::Tensor before = history ? history->to(x.scalar_type()).contiguous() : at::Tensor();
    ctx->save_for_backward({x, weight, before, offsets});
    ctx->saved_data["silu"] = silu;
    const at::Tensor rows = unit_stride(x), taps = stored_parameter(weight).contiguous();
    at::Tensor y = at::empty(x.sizes(), x.options());
    at::Tensor after = at::empty({offsets.size(0) - 1, x.size(1), kernels::kConvTaps - 1}, x.options());
    const kernels::ShortConvForward params{plain_arguments(rows, taps, before, offsets, silu), y.mutable_data_ptr(),
                                           after.mutable_data_ptr()};
    C10_CUDA_CHECK(kernels::launch_short_conv_forward(params, current_stream(x)));
    ctx->mark_non_differentiable({after});
    return {y, after};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const c10::cuda::CUDAGuard guard(x.device());
    const at::Tensor rows = unit_stride(x), taps = stored_parameter(weight).contiguous();
    const at::Tensor d_y = gradients[0].contiguous();
    variable_list result(5);
    result[0] = at::empty(x.sizes(), x.options());
    at::Tensor d_weight;
    if (weight.requires_grad()) {
      d_weight = at::empty(weight.sizes(), x.options().dtype(at::kFloat));
    }
    kernels::ShortConvBackward params;
    params.in = plain_arguments(rows, taps, saved[2], saved[3], ctx->saved_data["silu"].toBool());
    const at::Tensor scratch = scratch_buffer(kernels::short_conv_backward_scratch(params.in), x);
    params.d_y = d_y.const_data_ptr();
    params.d_x = result[0].mutable_data_ptr();
    params.d_weight = float_pointer(d_weight);
    params.scratch = scratch.mutable_data_ptr();
    C10_CUDA_CHECK(kernels::launch_short_conv_backward(params, current_stream(x)));
    if (d_weight.defined()) {
      result[1] = d_weight.to(weight.scalar_type());
    }
    return result;
  }
};

}  // namespace

ShortConvOutput short_conv_cuda(const at::Tensor& x, const at::Tensor& weight, const Sequences& sequences,
                                const at::Tensor& history, bool silu) {
  const auto outputs = ShortConvFunction::apply(x, weight, optional_tensor(history), sequences.offsets_device, silu);
  return {outputs[0], outputs[1]};
}

}  // namespace hydra::ops
