// Qwen3's attention (method.md section 2): projection, per-head RMSNorm, RoPE, causal softmax; W_O is applied by the
// caller.

#include <ATen/ATen.h>

#include "attention.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {

at::Tensor teacher_heads(const Model& model, std::int64_t layer, const at::Tensor& x, const AttentionRows& rows) {
  const Qwen3Config& base = model.config.base;
  const TeacherAttention& attention = model.layers[layer].teacher;
  const RotaryTables& tables = rows.tables;
  at::Tensor q = project_heads(wanted_rows(x, rows), attention.q, attention.q_bias, base.head_dim);
  at::Tensor k = project_heads(x, attention.k, attention.k_bias, base.head_dim);
  const at::Tensor v = project_heads(x, attention.v, attention.v_bias, base.head_dim);
  q = ops::norm_rotate(q, attention.q_norm, wanted_rows(tables.cos, rows), wanted_rows(tables.sin, rows),
                       base.rms_norm_eps);
  k = ops::norm_rotate(k, attention.k_norm, tables.cos, tables.sin, base.rms_norm_eps);
  std::vector<std::int64_t> kv_index(base.heads);
  for (std::int64_t h = 0; h < base.heads; ++h) {
    kv_index[h] = h / base.group_size();
  }
  return attend(q, k, v, kv_index, rows);
}

at::Tensor teacher_head_outputs(const Model& model, std::int64_t layer, const at::Tensor& x,
                                const ops::Sequences& sequences, const RotaryTables& tables) {
  return teacher_heads(model, layer, x, {sequences, tables});
}

}  // namespace hydra::model
