// Gated DeltaNet branch (method.md 4.2): projection -> (short convolution) -> q_norm, k_norm -> RoPE -> L2 -> gated
// delta rule with beta = c sigmoid(W_b x + b_b) and log decay g = -exp(A_log) softplus(W_a x + dt_bias), both fp32.

#include <ATen/ATen.h>

#include <cmath>

#include "attention.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/ops/gated_delta.hpp"

namespace hydra::model {
namespace {

struct Projections {
  at::Tensor q, k, v;  // [N, H_L, d]; k and v [N, Hkv, d] for kv_expand: gqa
};

Projections own_projections(const GdnBranch& gdn, const at::Tensor& x, std::int64_t head_dim) {
  return {project_heads(x, gdn.q, gdn.q_bias, head_dim), project_heads(x, gdn.k, gdn.k_bias, head_dim),
          project_heads(x, gdn.v, gdn.v_bias, head_dim)};
}

Projections from_shared(const SharedProjections& shared, const LayerPlan& plan, KvExpand expand) {
  const at::Tensor q = select_heads(shared.q, plan.gdn_heads);
  if (expand == KvExpand::gqa) {
    return {q, shared.k, shared.v};
  }
  return {q, select_heads(shared.k, plan.gdn_heads), select_heads(shared.v, plan.gdn_heads)};
}

// Convolution over a head's channels; with a cache, `history` holds the last rows of each sequence.
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, ConvActivation activation,
                    const ops::Sequences& sequences, at::Tensor* history) {
  ops::ShortConvOutput result =
      ops::short_conv(x.flatten(1), weight, sequences, history != nullptr ? *history : at::Tensor());
  if (history != nullptr) {
    *history = result.history.to(history->scalar_type());
  }
  const at::Tensor y = activation == ConvActivation::silu ? at::silu(result.output) : result.output;
  return y.view(x.sizes());
}

// KV head of each GDN head, for gqa.
std::vector<std::int64_t> kv_heads_of(const LayerPlan& plan, const Qwen3Config& base) {
  std::vector<std::int64_t> heads = plan.gdn_heads;
  for (std::int64_t& head : heads) {
    head /= base.group_size();
  }
  return heads;
}

at::Tensor delta_rule(const Projections& in, const at::Tensor& g, const at::Tensor& beta, const AttentionRows& rows) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(in.q.size(-1)));
  if (rows.cache == nullptr) {
    return ops::gated_delta(in.q, in.k, in.v, g, beta, scale, rows.sequences).output;
  }
  at::Tensor& state = rows.cache->gdn;
  ops::GatedDeltaOutput result =
      ops::gated_delta_step(in.q, in.k, in.v, g, beta, scale, rows.sequences, state.to(g.scalar_type()));
  state = result.final_state.to(state.scalar_type());
  return result.output;
}

}  // namespace

BranchOutput gdn_branch(const Model& model, std::int64_t layer, const at::Tensor& x, const SharedProjections& shared,
                        const AttentionRows& rows) {
  const Qwen3Config& base = model.config.base;
  const GdnConfig& options = model.config.hybrid->gdn;
  const LayerPlan& plan = model.config.plan->layers[layer];
  const GdnBranch& gdn = model.layers[layer].hybrid.gdn;
  LayerState* cache = rows.cache;

  Projections in =
      shared.q.defined() ? from_shared(shared, plan, options.kv_expand) : own_projections(gdn, x, base.head_dim);
  if (options.conv.kernel > 0) {
    const ConvActivation activation = options.conv.activation;
    in.q = convolve(in.q, gdn.q_conv, activation, rows.sequences, cache != nullptr ? &cache->q_conv : nullptr);
    in.k = convolve(in.k, gdn.k_conv, activation, rows.sequences, cache != nullptr ? &cache->k_conv : nullptr);
    in.v = convolve(in.v, gdn.v_conv, activation, rows.sequences, cache != nullptr ? &cache->v_conv : nullptr);
  }
  const auto direction = [&](const at::Tensor& projected, const at::Tensor& norm) {
    at::Tensor y = options.qk_norm ? ops::rms_norm(projected, norm, base.rms_norm_eps) : projected;
    y = options.rope ? ops::rotate(y, rows.tables.cos, rows.tables.sin) : y;
    return ops::l2_norm(y);
  };
  in.q = direction(in.q, gdn.q_norm);
  in.k = direction(in.k, gdn.k_norm);
  if (options.kv_expand == KvExpand::gqa) {
    const std::vector<std::int64_t> kv_heads = kv_heads_of(plan, base);
    in.k = select_heads(in.k, kv_heads);
    in.v = select_heads(in.v, kv_heads);
  }

  const at::ScalarType type = statistics_type(x);
  const at::Tensor decay_rate = gdn.A_log.to(type).exp();
  const at::Tensor g = -decay_rate * at::softplus(ops::linear(x, gdn.a).to(type) + gdn.dt_bias.to(type));
  at::Tensor beta = at::sigmoid(ops::linear(x, gdn.b).to(type) + gdn.b_bias.to(type));
  if (options.neg_eigval) {
    beta = 2 * beta;
  }
  BranchOutput output;
  output.heads = delta_rule(in, g, beta, rows);
  if (options.gate != GdnGate::none) {
    const auto heads = static_cast<std::int64_t>(plan.gdn_heads.size());
    const at::Tensor z = project_heads(x, gdn.z, {}, gdn.z.size(0) / heads);
    output.gate = options.gate == GdnGate::silu ? at::silu(z) : at::sigmoid(z);
  }
  return output;
}

}  // namespace hydra::model
