// Fusion of the branches (method.md 4.3). Per head h, with the head's learned scalar gamma_h:
//   scale  y_h = gamma_h RMSNorm(O_h) gate_h        (pre_norm: gamma_h RMSNorm(O_h gate_h))
//   gated  y_h = w_h(x) times that, w(x) = H softmax(W_f x)
//   none   y_h = O_h 2 gate_h, or O_h without a gate

#include <ATen/ATen.h>

#include "attention.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {
namespace {

// What multiplies each head: [H], under `gated` [N, H]; undefined under `none`.
at::Tensor head_amplitudes(const Model& model, const HybridAttention& attention, const at::Tensor& x) {
  const FusionMode mode = model.config.hybrid->fusion.mode;
  if (mode == FusionMode::none) {
    return {};
  }
  const at::ScalarType type = statistics_type(x);
  const at::Tensor gamma = attention.gamma.to(type);
  if (mode == FusionMode::scale) {
    return gamma;
  }
  const at::Tensor weights = at::softmax(ops::linear(x, attention.fusion).to(type), -1);
  return gamma * (static_cast<double>(model.config.base.heads) * weights);
}

}  // namespace

at::Tensor fuse_branches(const Model& model, std::int64_t layer, const at::Tensor& x, const BranchOutput& fa,
                         const BranchOutput& gdn) {
  const FusionConfig& fusion = model.config.hybrid->fusion;
  const LayerPlan& plan = model.config.plan->layers[layer];
  return ops::fuse_heads(
      {fa, plan.fa_heads}, {gdn, plan.gdn_heads}, head_amplitudes(model, model.layers[layer].hybrid, x),
      {.normalize = true, .gate_first = fusion.gate_pos == GatePosition::pre_norm, .eps = fusion.eps});
}

}  // namespace hydra::model
