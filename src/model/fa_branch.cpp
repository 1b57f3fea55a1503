// Full-attention branch (method.md 4.1): q = q_norm(W_q x) s_t, k = k_norm(W_k x), v = W_v x, no RoPE by default,
// causal softmax over the stored KV groups, gate sigmoid(W_g x + b). K and V exist for touched groups only.

#include <ATen/ATen.h>

#include "attention.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {
namespace {

struct Projections {
  at::Tensor q, k, v;  // [N or wanted, H_F, d], [N, touched, d] x2
};

Projections own_projections(const FaBranch& fa, const at::Tensor& x, std::int64_t head_dim, const AttentionRows& rows) {
  return {project_heads(wanted_rows(x, rows), fa.q, fa.q_bias, head_dim), project_heads(x, fa.k, fa.k_bias, head_dim),
          project_heads(x, fa.v, fa.v_bias, head_dim)};
}

// With one K/V head per query head (mha), a group is read at the rows of its first head (method.md section 11).
Projections from_shared(const SharedProjections& shared, const LayerPlan& plan, const Qwen3Config& base,
                        const AttentionRows& rows) {
  std::vector<std::int64_t> kv_heads = plan.kv_groups;
  if (shared.k.size(1) != base.kv_heads) {
    for (std::int64_t& head : kv_heads) {
      head *= base.group_size();
    }
  }
  return {ops::select_heads(wanted_rows(shared.q, rows), plan.fa_heads), ops::select_heads(shared.k, kv_heads),
          ops::select_heads(shared.v, kv_heads)};
}

}  // namespace

BranchOutput fa_branch(const Model& model, std::int64_t layer, const at::Tensor& x, const SharedProjections& shared,
                       const AttentionRows& rows) {
  const Qwen3Config& base = model.config.base;
  const FaConfig& options = model.config.hybrid->fa;
  const LayerPlan& plan = model.config.plan->layers[layer];
  const FaBranch& fa = model.layers[layer].hybrid.fa;

  auto [q, k, v] =
      shared.q.defined() ? from_shared(shared, plan, base, rows) : own_projections(fa, x, base.head_dim, rows);
  at::Tensor cos, sin, q_cos, q_sin;  // undefined: no rotation
  if (options.rope) {
    cos = rows.tables.cos;
    sin = rows.tables.sin;
    q_cos = wanted_rows(cos, rows);
    q_sin = wanted_rows(sin, rows);
  }
  q = ops::norm_rotate(q, fa.q_norm, q_cos, q_sin, base.rms_norm_eps);
  k = ops::norm_rotate(k, fa.k_norm, cos, sin, base.rms_norm_eps);
  if (rows.log_scale) {
    q = (q * wanted_rows(rows.tables.log_scale, rows).view({-1, 1, 1})).to(q.scalar_type());
  }
  BranchOutput output;
  output.heads = attend(q, k, v, plan.kv_index, rows);
  if (options.gate != FaGate::none) {
    const std::int64_t gate_width = options.gate == FaGate::headwise ? 1 : base.head_dim;
    output.gate = project_heads(wanted_rows(x, rows), fa.g, fa.g_bias, gate_width);
  }
  return output;
}

}  // namespace hydra::model
