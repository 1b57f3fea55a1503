// Cross-entropy and distillation from hidden states, rows in chunks (engineering.md A3). One autograd Function: its
// forward pass already forms the gradients of the hidden states and the head, chunk by chunk, from
//   dz = w_kl tau (softmax(z/tau) - softmax(z_t/tau)) + w_ce (softmax(z) - onehot)
// so that logits live for one chunk only. Logits and statistics are fp32 (fp64 for fp64 inputs), sums over rows fp64.
#include "hydrahead/ops/chunked_loss.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "distill_loss.hpp"
#include "hydrahead/base/error.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// a [M, K] b [K, N] in the statistics' type, accumulated there without rounding to a 16-bit result.
at::Tensor wide_mm(const at::Tensor& a, const at::Tensor& b) {
  const auto type = statistics_type(a);
  if (a.scalar_type() == type) {
    return at::mm(a, b);
  }
  return a.is_cuda() ? at::mm(a, b, type) : at::mm(a.to(type), b.to(type));
}

// sum += a b, sum in the statistics' type.
void wide_addmm_(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == sum.scalar_type()) {
    sum.addmm_(a, b);
  } else if (a.is_cuda()) {
    at::addmm_out(sum, sum, a, b, sum.scalar_type());
  } else {
    sum.addmm_(a.to(sum.scalar_type()), b.to(sum.scalar_type()));
  }
}

RowLosses chunk_losses(const at::Tensor& z, const at::Tensor& teacher_z, const at::Tensor& labels, double divisor,
                       const LossOptions& options, bool want_gradient, at::ScalarType gradient_type) {
#if HYDRA_CUDA
  if (z.is_cuda() && z.scalar_type() == at::kFloat) {
    return row_losses_cuda(z, teacher_z, labels, divisor, options, want_gradient, gradient_type);
  }
#endif
  return row_losses(z, teacher_z, labels, divisor, options, want_gradient, gradient_type);
}

class ChunkedLoss : public torch::autograd::Function<ChunkedLoss> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& hidden, const at::Tensor& head,
                               const std::optional<at::Tensor>& optional_teacher_hidden,
                               const std::optional<at::Tensor>& optional_teacher_head, const at::Tensor& labels,
                               double divisor, const LossOptions& options, bool want_hidden_gradient,
                               bool want_head_gradient) {
    const auto teacher_hidden = tensor_or_undefined(optional_teacher_hidden);
    const auto teacher_head = tensor_or_undefined(optional_teacher_head);
    const auto rows = hidden.size(0);
    const auto columns = options.vocab_limit > 0 ? options.vocab_limit : head.size(0);
    const auto compute = hidden.scalar_type();
    const auto wide = statistics_type(hidden);
    const auto w = head.narrow(0, 0, columns).to(compute);
    const auto w_t =
        teacher_head.defined() ? teacher_head.narrow(0, 0, columns).to(teacher_hidden.scalar_type()) : at::Tensor();
    const bool want_gradient = want_hidden_gradient || want_head_gradient;
    auto kl = at::zeros({}, hidden.options().dtype(at::kDouble));
    auto ce = at::zeros_like(kl);
    auto d_hidden = want_hidden_gradient ? at::empty_like(hidden) : at::Tensor();
    auto d_head = want_head_gradient ? at::zeros(head.sizes(), head.options().dtype(wide)) : at::Tensor();
    auto d_head_used = want_head_gradient ? d_head.narrow(0, 0, columns) : at::Tensor();
    for (std::int64_t begin = 0; begin < rows; begin += options.chunk_rows) {
      const auto count = std::min(options.chunk_rows, rows - begin);
      const auto h = hidden.narrow(0, begin, count);
      const auto teacher_z =
          w_t.defined() ? wide_mm(teacher_hidden.narrow(0, begin, count), w_t.t()).to(wide) : at::Tensor();
      const auto losses = chunk_losses(wide_mm(h, w.t()), teacher_z, labels.narrow(0, begin, count), divisor, options,
                                       want_gradient, compute);
      ce.add_(losses.ce.sum(0, false, at::kDouble));
      if (losses.kl.defined()) {
        kl.add_(losses.kl.sum(0, false, at::kDouble));
      }
      const auto& dz = losses.gradient;
      if (want_hidden_gradient) {
        auto target = d_hidden.narrow(0, begin, count);
        at::mm_out(target, dz, w);
      }
      if (want_head_gradient) {
        wide_addmm_(d_head_used, dz.t(), h);
      }
    }
    if (want_hidden_gradient) {
      ctx->saved_data["hidden"] = d_hidden;
    }
    if (want_head_gradient) {
      ctx->saved_data["head"] = d_head.to(gradient_type(head));
    }
    const auto total = (kl * options.kl_weight + ce * options.ce_weight) / divisor;
    ctx->mark_non_differentiable({kl, ce});
    return {total, kl, ce};
  }

  // The stored gradients are scaled in place and handed over, not copied: the head's can be more than a GiB.
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    variable_list result(9);
    const auto take = [&](const char* name, at::Tensor& target) {
      const auto found = ctx->saved_data.find(name);
      HYDRA_CHECK(found != ctx->saved_data.end(), "a second backward pass through chunked_loss");
      target = found->second.toTensor();
      ctx->saved_data.erase(found);
      target.mul_(gradients[0].to(target.scalar_type()));
    };
    if (ctx->needs_input_grad(0)) {
      take("hidden", result[0]);
    }
    if (ctx->needs_input_grad(1)) {
      take("head", result[1]);
    }
    return result;
  }
};

void check_shapes(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& teacher_hidden,
                  const at::Tensor& teacher_head, const at::Tensor& labels, const LossOptions& options) {
  HYDRA_CHECK(hidden.dim() == 2 && head.dim() == 2 && head.size(1) == hidden.size(1) && labels.dim() == 1 &&
                  labels.size(0) == hidden.size(0),
              "loss: hidden ", hidden.sizes(), ", head ", head.sizes(), ", labels ", labels.sizes());
  HYDRA_CHECK(options.chunk_rows > 0 && options.temperature > 0 && options.vocab_limit >= 0 &&
                  options.vocab_limit <= head.size(0),
              "loss: chunk_rows ", options.chunk_rows, ", temperature ", options.temperature, ", vocab_limit ",
              options.vocab_limit);
  if (options.kl_weight != 0.0) {
    HYDRA_CHECK(teacher_hidden.defined() && teacher_head.defined() && teacher_hidden.size(0) == hidden.size(0) &&
                    teacher_head.size(0) == head.size(0) && teacher_head.size(1) == teacher_hidden.size(1),
                "loss: teacher hidden states and head must match ", hidden.sizes(), " and ", head.sizes());
  }
}

}  // namespace

LossSums chunked_loss(const at::Tensor& student_hidden, const at::Tensor& student_head,
                      const at::Tensor& teacher_hidden, const at::Tensor& teacher_head, const at::Tensor& labels,
                      double divisor, const LossOptions& options) {
  check_shapes(student_hidden, student_head, teacher_hidden, teacher_head, labels, options);
  const bool distill = options.kl_weight != 0.0;
  const bool graph = at::GradMode::is_enabled();
  const auto outputs =
      ChunkedLoss::apply(student_hidden, student_head, optional_tensor(distill ? teacher_hidden : at::Tensor()),
                         optional_tensor(distill ? teacher_head : at::Tensor()), labels, divisor, options,
                         graph && student_hidden.requires_grad(), graph && student_head.requires_grad());
  return {outputs[0], outputs[1], outputs[2]};
}

at::Tensor token_logprobs(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& labels,
                          std::int64_t chunk_rows) {
  const at::NoGradGuard no_grad;
  check_shapes(hidden, head, {}, {}, labels, {.chunk_rows = chunk_rows});
  const auto w = head.to(hidden.scalar_type());
  const auto rows = hidden.size(0);
  auto result = at::empty({rows}, hidden.options().dtype(statistics_type(hidden)));
  for (std::int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const auto count = std::min(chunk_rows, rows - begin);
    const auto z = wide_mm(hidden.narrow(0, begin, count), w.t());
    const auto chosen = z.gather(1, labels.narrow(0, begin, count).unsqueeze(1)).squeeze(1);
    result.narrow(0, begin, count).copy_(chosen - at::logsumexp(z, 1));
  }
  return result;
}

}  // namespace hydra::ops
