// Gated DeltaNet branch (method.md 4.2): projection -> (short convolution) -> q_norm, k_norm -> RoPE -> L2 -> gated
// delta rule with beta = c sigmoid(W_b x + b_b) and log decay g = -exp(A_log) softplus(W_a x + dt_bias), both fp32.

#include <ATen/ATen.h>

#include <cmath>

#include "attention.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/ops/gated_delta.hpp"
#include "hydrahead/ops/gdn_inputs.hpp"

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
  const at::Tensor q = ops::select_heads(shared.q, plan.gdn_heads);
  if (expand == KvExpand::gqa) {
    return {q, shared.k, shared.v};
  }
  return {q, ops::select_heads(shared.k, plan.gdn_heads), ops::select_heads(shared.v, plan.gdn_heads)};
}

// Convolution over a head's channels; with a cache, `history` holds the last rows of each sequence.
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, ConvActivation activation,
                    const ops::Sequences& sequences, at::Tensor* history) {
  ops::ShortConvOutput result =
      ops::short_conv(x.flatten(1), weight, sequences, history != nullptr ? *history : at::Tensor(),
                      /*silu=*/activation == ConvActivation::silu);
  if (history != nullptr) {
    *history = result.history.to(history->scalar_type());
  }
  return result.output.view(x.sizes());
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
  const ops::GdnParameters parameters{options.qk_norm ? gdn.q_norm : at::Tensor(),
                                      options.qk_norm ? gdn.k_norm : at::Tensor(), gdn.A_log, gdn.dt_bias, gdn.b_bias};
  const ops::GdnInputs inputs =
      ops::gdn_inputs(in.q, in.k, ops::linear(x, gdn.a), ops::linear(x, gdn.b), parameters,
                      options.rope ? rows.tables.cos : at::Tensor(), options.rope ? rows.tables.sin : at::Tensor(),
                      base.rms_norm_eps, options.neg_eigval ? 2.0 : 1.0);
  in.q = inputs.q;
  in.k = inputs.k;
  if (options.kv_expand == KvExpand::gqa) {
    const std::vector<std::int64_t> kv_heads = kv_heads_of(plan, base);
    in.k = ops::select_heads(in.k, kv_heads);
    in.v = ops::select_heads(in.v, kv_heads);
  }
  BranchOutput output;
  output.heads = delta_rule(in, inputs.g, inputs.beta, rows);
  if (options.gate != GdnGate::none) {
    const auto heads = static_cast<std::int64_t>(plan.gdn_heads.size());
    output.gate = project_heads(x, gdn.z, {}, gdn.z.size(0) / heads);
    output.activation = options.gate == GdnGate::silu ? ops::GateActivation::silu : ops::GateActivation::sigmoid;
  }
  return output;
}

}  // namespace hydra::model
