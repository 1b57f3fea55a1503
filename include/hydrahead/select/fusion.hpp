#pragma once
// From effects of heads on single probes to one score a head (method.md 3.4; Eq. 11 and 12 of the paper).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hydra::select {

// Means over the kept pairs of one probe, [L, H], and the effects on each; fp64 on the CPU. A scorer with one role
// leaves what is about `send` undefined.
struct ProbeEffects {
  std::string probe, capability;
  std::int64_t pairs = 0, dropped = 0;  // kept, and left out for their small margin
  at::Tensor receive, send;             // of the effects clipped to [0, 1]
  at::Tensor receive_raw, send_raw;     // of the unclipped effects
  at::Tensor attribution;               // of the gradient score
  std::vector<std::string> pair_ids;    // kept ones
  at::Tensor pair_receive, pair_send;   // [pairs, L, H], unclipped
};

// One capability, in the order in which the probes name them; all [L, H].
struct CapabilityScore {
  std::string name;
  double weight = 1;
  at::Tensor receive, send;  // means of the clipped effects over the probes with pairs; one role: no `send`
  at::Tensor sends;          // bool: the head is stronger as a sender (equally strong: by the unclipped means)
  at::Tensor strength;       // the stronger role's
  at::Tensor kappa;          // share of the probes with pairs in which that role's |unclipped effect| >= threshold
  at::Tensor score;          // minmax of strength * kappa; 0 if that is constant
};
struct FusedScores {
  at::Tensor score;        // [L, H] s_h of Eq. 12
  at::Tensor effect;       // unclipped effect in the stronger role, without kappa, fused like the score without minmax
  at::Tensor attribution;  // likewise
  std::vector<CapabilityScore> capabilities;
  std::vector<std::string> left_out;  // capabilities without a single kept pair
};

// weights: by capability; a capability that it does not name weighs 1. UserError if no capability has both pairs and a
// weight above 0.
FusedScores fuse(const std::vector<ProbeEffects>& probes, const std::map<std::string, double>& weights,
                 double threshold);

}  // namespace hydra::select
