// The whole forward pass on flat rows: embedding, blocks, final norm; the head is applied to chosen rows only.

#include "hydrahead/model/hydra_model.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/after_backward.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/ops/recompute.hpp"

namespace hydra::model {

// Angles, cosines and sines in fp32, as Hugging Face computes them.
RotaryTables rotary_tables(const Model& model, const ops::Sequences& sequences) {
  const at::NoGradGuard no_grad;
  RotaryTables tables;
  const at::Tensor angles = sequences.positions.to(at::kFloat).unsqueeze(1) * model.rope_frequencies;
  tables.cos = angles.cos();
  tables.sin = angles.sin();
  if (model.rope_attention_factor != 1.0) {
    tables.cos.mul_(model.rope_attention_factor);
    tables.sin.mul_(model.rope_attention_factor);
  }
  if (model.is_hybrid()) {
    const double a = model.config.hybrid->fa.log_scale.a;
    const at::Tensor scale = sequences.positions.to(at::kDouble).add_(a).log_().div_(std::log(a));
    tables.log_scale = scale.to(model.compute_type == at::kDouble ? at::kDouble : at::kFloat);
  }
  return tables;
}

at::Tensor embed_tokens(const Model& model, const at::Tensor& ids) {
  if (model.hooks.before_forward) {
    model.hooks.before_forward(-1);
  }
  return ops::embedding(model.embed, ids, model.compute_type);
}

at::Tensor forward_hidden(const Model& model, const at::Tensor& ids, const ops::Sequences& sequences,
                          const ForwardOptions& options) {
  HYDRA_CHECK(ids.size(0) == sequences.rows(), ids.size(0), " ids for ", sequences.rows(), " rows");
  const RotaryTables tables = rotary_tables(model, sequences);
  at::Tensor hidden = embed_tokens(model, ids);
  if (options.hidden_tap) {
    options.hidden_tap(0, hidden);
  }
  // The passes over layer i, or over the final norm and head (i = layers), begin with this stream and end at it.
  const auto pass_hooks = [&](std::int64_t i) {
    if (model.hooks.before_forward) {
      model.hooks.before_forward(i);
    }
    if (model.hooks.after_backward) {
      hidden = ops::after_backward(hidden, [done = model.hooks.after_backward, i] { done(i); });
    }
  };
  for (std::int64_t i = 0; i < model.config.base.layers; ++i) {
    pass_hooks(i);
    // By value: a recomputed block runs again after this function has returned.
    const auto block = [&model, i, sequences, tables, options](const at::Tensor& x) {
      return transformer_layer(model, i, x, sequences, tables, options);
    };
    hidden = options.recompute ? ops::recompute(block, hidden) : block(hidden);
    if (options.hidden_tap) {
      options.hidden_tap(i + 1, hidden);
    }
  }
  pass_hooks(model.config.base.layers);
  return ops::rms_norm(hidden, model.norm, model.config.base.rms_norm_eps);
}

at::Tensor logits_of(const Model& model, const at::Tensor& hidden_rows) {
  const at::Tensor logits = ops::linear(hidden_rows, model.head);
  return logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
}

}  // namespace hydra::model
