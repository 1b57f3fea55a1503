#include "hydrahead/select/fusion.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "hydrahead/base/error.hpp"

namespace hydra::select {
namespace {

// All [L, H], means over the probes of one capability.
struct Capability {
  CapabilityScore result;
  at::Tensor effect, attribution;
};

at::Tensor minmax(const at::Tensor& x) {
  const at::Tensor low = x.min(), range = x.max() - low;
  return range.item<double>() > 0 ? (x - low) / range : at::zeros_like(x);
}

Capability fuse_probes(const std::string& name, const std::vector<const ProbeEffects*>& probes, double weight,
                       double threshold) {
  const auto mean = [&](at::Tensor ProbeEffects::*member) {
    std::vector<at::Tensor> all;
    for (const ProbeEffects* probe : probes) {
      all.push_back(probe->*member);
    }
    return at::stack(all).mean(0);
  };
  // Share of the probes in which the head matters in one role.
  const auto share = [&](at::Tensor ProbeEffects::*raw) {
    std::vector<at::Tensor> all;
    for (const ProbeEffects* probe : probes) {
      all.push_back((probe->*raw).abs().ge(threshold).to(at::kDouble));
    }
    return at::stack(all).mean(0);
  };
  Capability fused{.result = {}, .effect = mean(&ProbeEffects::receive_raw), .attribution = {}};
  fused.attribution = mean(&ProbeEffects::attribution);
  CapabilityScore& result = fused.result;
  result.name = name;
  result.weight = weight;
  result.receive = result.strength = mean(&ProbeEffects::receive);
  result.kappa = share(&ProbeEffects::receive_raw);
  result.sends = at::zeros_like(result.receive, at::kBool);
  if (probes.front()->send.defined()) {
    const at::Tensor send_effect = mean(&ProbeEffects::send_raw);
    result.send = mean(&ProbeEffects::send);
    // Heads whose effects were all clipped to 0 have a stronger role too: the tie key asks for it.
    result.sends = result.send.gt(result.receive)
                       .logical_or(result.send.eq(result.receive).logical_and(send_effect.gt(fused.effect)));
    result.strength = at::where(result.sends, result.send, result.receive);
    result.kappa = at::where(result.sends, share(&ProbeEffects::send_raw), result.kappa);
    fused.effect = at::where(result.sends, send_effect, fused.effect);
  }
  result.score = minmax(result.strength * result.kappa);
  return fused;
}

}  // namespace

FusedScores fuse(const std::vector<ProbeEffects>& probes, const std::map<std::string, double>& weights,
                 double threshold) {
  std::vector<std::string> names;
  for (const ProbeEffects& probe : probes) {
    if (std::find(names.begin(), names.end(), probe.capability) == names.end()) {
      names.push_back(probe.capability);
    }
  }
  FusedScores fused;
  double sum = 0;
  for (const std::string& name : names) {
    std::vector<const ProbeEffects*> kept;
    for (const ProbeEffects& probe : probes) {
      if (probe.capability == name && probe.pairs > 0) {
        kept.push_back(&probe);
      }
    }
    const auto given = weights.find(name);
    const double weight = given == weights.end() ? 1.0 : given->second;
    if (kept.empty()) {
      fused.left_out.push_back(name);
      continue;
    }
    Capability capability = fuse_probes(name, kept, weight, threshold);
    const auto add = [weight](at::Tensor& total, const at::Tensor& part) {
      total = total.defined() ? total + weight * part : weight * part;
    };
    add(fused.score, capability.result.score);
    add(fused.effect, capability.effect);
    add(fused.attribution, capability.attribution);
    sum += weight;
    fused.capabilities.push_back(std::move(capability.result));
  }
  HYDRA_REQUIRE(!fused.capabilities.empty(),
                "select: no pair is left whose readout falls by select.min_margin, of a probe that keeps the share "
                "select.min_kept of its pairs: the teacher does not answer the probes (select.probes, select.context)");
  HYDRA_REQUIRE(sum > 0, "select.weights: every capability that has pairs weighs 0; expected one above 0");
  for (at::Tensor* total : {&fused.score, &fused.effect, &fused.attribution}) {
    total->div_(sum);
  }
  return fused;
}

}  // namespace hydra::select
