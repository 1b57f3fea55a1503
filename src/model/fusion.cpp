// Fusion of the branches (method.md 4.3). Per head h, with the head's learned scalar gamma_h:
//   scale  y_h = gamma_h RMSNorm(O_h) gate_h        (pre_norm: gamma_h RMSNorm(O_h gate_h))
//   gated  y_h = w_h(x) times that, w(x) = H softmax(W_f x)
//   none   y_h = O_h 2 gate_h, or O_h without a gate

#include <ATen/ATen.h>

#include "attention.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {
namespace {

// One branch; amplitude broadcasts over [N, h, d] and is fp32.
at::Tensor scaled_heads(const FusionConfig& fusion, const BranchOutput& branch, const at::Tensor& amplitude) {
  const at::ScalarType type = branch.heads.scalar_type();
  const bool gate_first = fusion.gate_pos == GatePosition::pre_norm;
  at::Tensor y = branch.heads;
  if (branch.gate.defined() && gate_first) {
    y = y * branch.gate;
  }
  y = ops::rms_norm(y, {}, fusion.eps);
  if (branch.gate.defined() && !gate_first) {
    y = y * branch.gate;
  }
  return (y * amplitude).to(type);
}

at::Tensor plain_heads(const BranchOutput& branch) {
  return branch.gate.defined() ? branch.heads * (2 * branch.gate) : branch.heads;
}

// Heads of both branches in original order: [N, H, d], or one branch as it is.
at::Tensor merge_heads(const at::Tensor& fa, const at::Tensor& gdn, const LayerPlan& plan) {
  if (plan.gdn_heads.empty() || plan.fa_heads.empty()) {
    return plan.gdn_heads.empty() ? fa : gdn;
  }
  std::vector<at::Tensor> heads(plan.fa_heads.size() + plan.gdn_heads.size());
  const auto place = [&heads](const at::Tensor& packed, const std::vector<std::int64_t>& indices) {
    const std::vector<at::Tensor> each = packed.unbind(1);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      heads[indices[i]] = each[i];
    }
  };
  place(fa, plan.fa_heads);
  place(gdn, plan.gdn_heads);
  return at::stack(heads, 1);
}

}  // namespace

at::Tensor fuse_branches(const Model& model, std::int64_t layer, const at::Tensor& x, const BranchOutput& fa,
                         const BranchOutput& gdn) {
  const FusionConfig& fusion = model.config.hybrid->fusion;
  const LayerPlan& plan = model.config.plan->layers[layer];
  const HybridAttention& attention = model.layers[layer].hybrid;
  if (fusion.mode == FusionMode::none) {
    return merge_heads(fa.heads.defined() ? plain_heads(fa) : at::Tensor(),
                       gdn.heads.defined() ? plain_heads(gdn) : at::Tensor(), plan);
  }
  const at::ScalarType type = statistics_type(x);
  at::Tensor amplitude = attention.gamma.to(type).view({1, -1, 1});  // [1 or N, H, 1]
  if (fusion.mode == FusionMode::gated) {
    const at::Tensor weights = at::softmax(ops::linear(x, attention.fusion).to(type), -1);
    amplitude = amplitude * (static_cast<double>(model.config.base.heads) * weights).unsqueeze(-1);
  }
  const auto scaled = [&](const BranchOutput& branch, const std::vector<std::int64_t>& heads) {
    return branch.heads.defined() ? scaled_heads(fusion, branch, select_heads(amplitude, heads)) : at::Tensor();
  };
  return merge_heads(scaled(fa, plan.fa_heads), scaled(gdn, plan.gdn_heads), plan);
}

}  // namespace hydra::model
