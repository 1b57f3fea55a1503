// Choice of the path, and the ATen path.
#include "head_output.hpp"

#include <ATen/ATen.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

// amplitude broadcasts over [N, h, d].
at::Tensor scaled_heads(const BranchHeads& branch, const at::Tensor& amplitude, const HeadFusion& fusion) {
  const at::Tensor gate = gate_values(branch);
  at::Tensor y = branch.heads;
  if (gate.defined() && fusion.gate_first) {
    y = y * gate;
  }
  if (fusion.normalize) {
    y = rms_norm(y, {}, fusion.eps);
  }
  if (gate.defined() && !fusion.gate_first) {
    y = y * gate;
  }
  return (y * amplitude).to(branch.heads.scalar_type());
}

at::Tensor plain_heads(const BranchHeads& branch) {
  const at::Tensor gate = gate_values(branch);
  return gate.defined() ? branch.heads * (2 * gate) : branch.heads;
}

// Heads of both branches at their places: [N, H, d], or one branch as it is.
at::Tensor merge_heads(const at::Tensor& fa, const std::vector<std::int64_t>& fa_places, const at::Tensor& gdn,
                       const std::vector<std::int64_t>& gdn_places) {
  if (!fa.defined() || !gdn.defined()) {
    return fa.defined() ? fa : gdn;
  }
  std::vector<at::Tensor> heads(fa_places.size() + gdn_places.size());
  const auto place = [&heads](const at::Tensor& packed, const std::vector<std::int64_t>& places) {
    const std::vector<at::Tensor> each = packed.unbind(1);
    for (std::size_t i = 0; i < places.size(); ++i) {
      heads[places[i]] = each[i];
    }
  };
  place(fa, fa_places);
  place(gdn, gdn_places);
  return at::stack(heads, 1);
}

void check_branch(const PlacedHeads& part) {
  const BranchHeads& branch = part.branch;
  if (!branch.heads.defined()) {
    HYDRA_CHECK(part.places.empty() && !branch.gate.defined(), "fuse_heads: ", part.places.size(),
                " places for a branch without heads");
    return;
  }
  HYDRA_CHECK(branch.heads.dim() == 3 && branch.heads.size(1) == static_cast<std::int64_t>(part.places.size()),
              "fuse_heads: heads ", branch.heads.sizes(), " for ", part.places.size(), " places");
  HYDRA_CHECK(!branch.gate.defined() ||
                  (branch.gate.dim() == 3 && branch.gate.sizes().slice(0, 2) == branch.heads.sizes().slice(0, 2) &&
                   (branch.gate.size(2) == 1 || branch.gate.size(2) == branch.heads.size(2))),
              "fuse_heads: gate ", branch.gate.sizes(), " for heads ", branch.heads.sizes());
}

#if HYDRA_CUDA
bool kernels_take(const PlacedHeads& fa, const PlacedHeads& gdn, const at::Tensor& amplitude) {
  const at::Tensor& some = fa.branch.heads.defined() ? fa.branch.heads : gdn.branch.heads;
  const auto same_type = [&](const at::Tensor& x) { return !x.defined() || x.scalar_type() == some.scalar_type(); };
  return has_kernels(some) && some.size(0) > 0 && some.size(2) % 2 == 0 && some.size(2) <= 256 &&
         fa.places.size() + gdn.places.size() <= 256 && same_type(fa.branch.gate) && same_type(gdn.branch.heads) &&
         same_type(gdn.branch.gate) && (!amplitude.defined() || amplitude.scalar_type() == at::kFloat);
}
#endif

}  // namespace

at::Tensor gate_values(const BranchHeads& branch) {
  if (!branch.gate.defined()) {
    return {};
  }
  return branch.activation == GateActivation::silu ? at::silu(branch.gate) : at::sigmoid(branch.gate);
}

at::Tensor fuse_heads_aten(const PlacedHeads& fa, const PlacedHeads& gdn, const at::Tensor& amplitude,
                           const HeadFusion& fusion) {
  const auto part = [&](const PlacedHeads& placed) {
    if (!placed.branch.heads.defined()) {
      return at::Tensor();
    }
    if (!amplitude.defined()) {
      return plain_heads(placed.branch);
    }
    const at::Tensor each = amplitude.dim() == 1 ? amplitude.unsqueeze(0) : amplitude;  // [1 or N, H]
    return scaled_heads(placed.branch, select_heads(each.unsqueeze(-1), placed.places), fusion);
  };
  return merge_heads(part(fa), fa.places, part(gdn), gdn.places);
}

at::Tensor fuse_heads(const PlacedHeads& fa, const PlacedHeads& gdn, const at::Tensor& amplitude,
                      const HeadFusion& fusion) {
  check_branch(fa);
  check_branch(gdn);
  const auto heads = static_cast<std::int64_t>(fa.places.size() + gdn.places.size());
  HYDRA_CHECK(heads > 0, "fuse_heads: no heads");
  HYDRA_CHECK(!amplitude.defined() || amplitude.size(-1) == heads, "fuse_heads: amplitudes ", amplitude.sizes(),
              " for ", heads, " heads");
#if HYDRA_CUDA
  if (kernels_take(fa, gdn, amplitude)) {
    return fuse_heads_cuda(fa, gdn, amplitude, fusion);
  }
#endif
  return fuse_heads_aten(fa, gdn, amplitude, fusion);
}

// Views and one stack: no index tensor has to reach the device, and the backward pass is one stack as well.
at::Tensor select_heads(const at::Tensor& x, const std::vector<std::int64_t>& heads) {
  const std::vector<at::Tensor> all = x.unbind(1);
  std::vector<at::Tensor> chosen;
  chosen.reserve(heads.size());
  bool identity = heads.size() == all.size();
  for (const std::int64_t h : heads) {
    identity = identity && h == static_cast<std::int64_t>(chosen.size());
    chosen.push_back(all[h]);
  }
  return identity ? x : at::stack(chosen, 1);
}

}  // namespace hydra::ops
