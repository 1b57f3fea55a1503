// aten::_flash_attention_forward and _backward with int32 offsets, wrapped in an autograd Function of our own: ATen
// registers no derivative for the forward. Their argument lists change between torch releases, hence this one file.
// The causal mask is aligned to the bottom right, so the last n rows over T keys need no mask either.
#include "attention_varlen.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "index_tensor.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class VarlenAttention : public torch::autograd::Function<VarlenAttention> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& offsets, std::int64_t max_length, double scale) {
    auto [out, logsumexp, rng_state, unused, debug_mask] = at::_flash_attention_forward(
        q, k, v, offsets, offsets, max_length, max_length, /*dropout_p=*/0.0, /*is_causal=*/true,
        /*return_debug_mask=*/false, scale);
    ctx->save_for_backward({q, k, v, offsets, out, logsumexp, rng_state, unused});
    ctx->saved_data["max_length"] = max_length;
    ctx->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto max_length = ctx->saved_data["max_length"].toInt();
    auto [dq, dk, dv] = at::_flash_attention_backward(
        gradients[0].contiguous(), saved[0], saved[1], saved[2], saved[4], saved[5], saved[3], saved[3], max_length,
        max_length, /*dropout_p=*/0.0, /*is_causal=*/true, saved[6], saved[7], ctx->saved_data["scale"].toDouble());
    return {dq, dk, dv, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool varlen_attention_supports(const at::Tensor& q) {
  return q.is_cuda() && (q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf) && q.size(2) <= 256 &&
         q.size(2) % 8 == 0;
}

at::Tensor varlen_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                            const Sequences& sequences) {
  return VarlenAttention::apply(q, k, v, sequences.offsets_device, sequences.max_length, scale);
}

at::Tensor varlen_cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  const auto offsets = [&q](std::int64_t rows) { return index_tensor({0, rows}, q.device()).to(at::kInt); };
  return std::get<0>(at::_flash_attention_forward(q, k, v, offsets(q.size(0)), offsets(k.size(0)), q.size(0), k.size(0),
                                                  0.0, /*is_causal=*/true, false, scale));
}

}  // namespace hydra::ops
