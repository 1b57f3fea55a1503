// Binding of kernels/head_output with its autograd Function: keeps O, z and the amplitudes.
#include <torch/csrc/autograd/custom_function.h>

#include <array>

#include "head_output.hpp"
#include "kernel_arguments.hpp"
#include "kernels/head_output/launch.h"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What is no tensor, carried from forward to backward. Branch 0 is FA, branch 1 GDN.
struct Layout : torch::CustomClassHolder {
  std::array<std::vector<std::int64_t>, 2> places;
  std::array<GateActivation, 2> activation{};
  HeadFusion fusion;
};
using LayoutPointer = c10::intrusive_ptr<Layout>;

// Tensors in the order of save_for_backward: FA heads, FA gate, GDN heads, GDN gate, amplitudes.
kernels::HeadOutput plain_arguments(const variable_list& x, const Layout& layout) {
  const at::Tensor& some = x[0].defined() ? x[0] : x[2];
  kernels::HeadOutput in;
  in.shape.rows = some.size(0);
  in.shape.heads = static_cast<std::int32_t>(layout.places[0].size() + layout.places[1].size());
  in.shape.size = static_cast<std::int32_t>(some.size(2));
  in.element = element_of(some);
  for (const std::size_t b : {0, 1}) {
    const at::Tensor& heads = x[2 * b];
    const at::Tensor& gate = x[2 * b + 1];
    if (!heads.defined()) {
      continue;
    }
    in.branch[b].heads = head_rows(heads);
    if (gate.defined()) {
      in.branch[b].gate = head_rows(gate);
      in.branch[b].headwise = gate.size(2) == 1;
      in.branch[b].kind =
          layout.activation[b] == GateActivation::silu ? kernels::GateKind::silu : kernels::GateKind::sigmoid;
    }
    for (std::size_t i = 0; i < layout.places[b].size(); ++i) {
      in.source[layout.places[b][i]] = static_cast<std::int16_t>(2 * i + b);
    }
  }
  if (x[4].defined()) {
    in.amplitude = x[4].const_data_ptr<float>();
    in.amplitude_stride = x[4].dim() == 2 ? x[4].stride(0) : 0;
  }
  in.normalize = layout.fusion.normalize && x[4].defined();
  in.gate_first = layout.fusion.gate_first;
  in.eps = static_cast<float>(layout.fusion.eps);
  return in;
}

variable_list readable(const variable_list& x) {
  variable_list result;
  for (std::size_t i = 0; i < 5; ++i) {
    result.push_back(!x[i].defined() ? x[i] : i == 4 ? x[i].contiguous() : unit_stride(x[i]));
  }
  return result;
}

class FuseHeads : public torch::autograd::Function<FuseHeads> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const std::optional<at::Tensor>& fa_heads,
                            const std::optional<at::Tensor>& fa_gate, const std::optional<at::Tensor>& gdn_heads,
                            const std::optional<at::Tensor>& gdn_gate, const std::optional<at::Tensor>& amplitude,
                            const LayoutPointer& layout) {
    variable_list saved;
    for (const auto* x : {&fa_heads, &fa_gate, &gdn_heads, &gdn_gate, &amplitude}) {
      saved.push_back(tensor_or_undefined(*x));
    }
    ctx->save_for_backward(saved);
    ctx->saved_data["layout"] = c10::IValue::make_capsule(layout);
    const at::Tensor& some = saved[0].defined() ? saved[0] : saved[2];
    const c10::cuda::CUDAGuard guard(some.device());
    const variable_list x = readable(saved);
    kernels::HeadOutputForward params;
    params.in = plain_arguments(x, *layout);
    at::Tensor y = at::empty({some.size(0), params.in.shape.heads, some.size(2)}, some.options());
    params.y = y.mutable_data_ptr();
    C10_CUDA_CHECK(kernels::launch_head_output_forward(params, current_stream(some)));
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto layout = c10::static_intrusive_pointer_cast<Layout>(ctx->saved_data["layout"].toCapsule());
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor d_y = unit_stride(gradients[0]);
    const c10::cuda::CUDAGuard guard(d_y.device());
    const variable_list x = readable(saved);
    variable_list result(6);
    for (std::size_t i = 0; i < 5; ++i) {
      if (saved[i].defined() && (i < 4 || saved[i].requires_grad())) {
        result[i] = at::empty(saved[i].sizes(), saved[i].options());
      }
    }
    kernels::HeadOutputBackward params;
    params.in = plain_arguments(x, *layout);
    const at::Tensor scratch = scratch_buffer(kernels::head_output_backward_scratch(params.in), d_y);
    params.d_y = head_rows(d_y);
    for (const std::size_t b : {0, 1}) {
      const auto pointer = [](const at::Tensor& t) { return t.defined() ? t.mutable_data_ptr() : nullptr; };
      params.gradient[b] = {pointer(result[2 * b]), pointer(result[2 * b + 1]),
                            static_cast<std::int32_t>(layout->places[b].size())};
    }
    params.d_amplitude = float_pointer(result[4]);
    params.scratch = scratch.mutable_data_ptr();
    C10_CUDA_CHECK(kernels::launch_head_output_backward(params, current_stream(d_y)));
    return result;
  }
};

}  // namespace

at::Tensor fuse_heads_cuda(const PlacedHeads& fa, const PlacedHeads& gdn, const at::Tensor& amplitude,
                           const HeadFusion& fusion) {
  auto layout = c10::make_intrusive<Layout>();
  layout->places = {fa.places, gdn.places};
  layout->activation = {fa.branch.activation, gdn.branch.activation};
  layout->fusion = fusion;
  return FuseHeads::apply(optional_tensor(fa.branch.heads), optional_tensor(fa.branch.gate),
                          optional_tensor(gdn.branch.heads), optional_tensor(gdn.branch.gate),
                          optional_tensor(amplitude), layout);
}

}  // namespace hydra::ops
