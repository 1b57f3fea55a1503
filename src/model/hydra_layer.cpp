// One transformer block on flat rows: norm -> attention sublayer -> residual -> norm -> SwiGLU MLP -> residual. The
// sublayer is Qwen3's attention, or the hybrid layer of method.md section 4: both branches read the same input, and
// their heads meet in one W_O.

#include <ATen/ATen.h>

#include "attention.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {
SharedProjections shared_projections(const HybridAttention& attention, const at::Tensor& x, std::int64_t head_dim) {
  if (!attention.shared_q.defined()) {
    return {};
  }
  return {project_heads(x, attention.shared_q, attention.shared_q_bias, head_dim),
          project_heads(x, attention.shared_k, attention.shared_k_bias, head_dim),
          project_heads(x, attention.shared_v, attention.shared_v_bias, head_dim)};
}

namespace {

at::Tensor hybrid_heads(const Model& model, std::int64_t layer, const at::Tensor& x, const AttentionRows& rows) {
  const LayerPlan& plan = model.config.plan->layers[layer];
  const SharedProjections shared = shared_projections(model.layers[layer].hybrid, x, model.config.base.head_dim);
  BranchOutput fa, gdn;
  if (!plan.fa_heads.empty()) {
    fa = fa_branch(model, layer, x, shared, rows);
  }
  if (!plan.gdn_heads.empty()) {
    gdn = gdn_branch(model, layer, x, shared, rows);
    gdn.heads = wanted_rows(gdn.heads, rows);
    gdn.gate = gdn.gate.defined() ? wanted_rows(gdn.gate, rows) : gdn.gate;
  }
  return fuse_branches(model, layer, wanted_rows(x, rows), fa, gdn);
}

AttentionRows rows_of(const Model& model, std::int64_t layer, const ops::Sequences& sequences,
                      const RotaryTables& tables, const ForwardOptions& options) {
  AttentionRows rows{.sequences = sequences, .tables = tables, .log_scale = options.log_scale};
  if (options.state != nullptr) {
    rows.cache = &options.state->layers[layer];
    if (options.last_rows && layer + 1 == model.config.base.layers && sequences.count() < sequences.rows()) {
      rows.wanted = sequences.offsets_device.slice(0, 1).to(at::kLong) - 1;
    }
  }
  return rows;
}

}  // namespace

at::Tensor attention_sublayer(const Model& model, std::int64_t layer, const at::Tensor& x,
                              const ops::Sequences& sequences, const RotaryTables& tables,
                              const ForwardOptions& options) {
  const AttentionRows rows = rows_of(model, layer, sequences, tables, options);
  const Layer& parameters_of_layer = model.layers[layer];
  at::Tensor y;
  if (model.is_hybrid()) {
    const HybridAttention& attention = parameters_of_layer.hybrid;
    y = ops::linear(hybrid_heads(model, layer, x, rows).flatten(1), attention.o, attention.o_bias);
  } else {
    const TeacherAttention& attention = parameters_of_layer.teacher;
    y = ops::linear(teacher_heads(model, layer, x, rows).flatten(1), attention.o, attention.o_bias);
  }
  if (options.attention_tap) {
    options.attention_tap(layer, x, y);
  }
  return y;
}

at::Tensor transformer_layer(const Model& model, std::int64_t layer, const at::Tensor& hidden,
                             const ops::Sequences& sequences, const RotaryTables& tables,
                             const ForwardOptions& options) {
  const Layer& block = model.layers[layer];
  const double eps = model.config.base.rms_norm_eps;
  const at::Tensor residual = wanted_rows(hidden, rows_of(model, layer, sequences, tables, options));
  const at::Tensor middle = residual + attention_sublayer(model, layer, ops::rms_norm(hidden, block.input_norm, eps),
                                                          sequences, tables, options);
  const at::Tensor x = ops::rms_norm(middle, block.post_attention_norm, eps);
  return middle + ops::swiglu_mlp(x, block.gate, block.up, block.down);
}

}  // namespace hydra::model
