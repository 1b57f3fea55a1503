#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "hydrahead/ops/gated_delta.hpp"
#include "precision.hpp"

namespace hydra::ops {

GatedDeltaSummary gated_delta_summary(const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                                      const at::Tensor& beta, const Sequences& sequences) {
  const at::NoGradGuard no_grad;
  const auto heads = v.size(1), size = k.size(2);
  const auto final_state = [&](const at::Tensor& values, const at::Tensor& start) {  // what the outputs are is unused
    return gated_delta(k, k, values, g, beta, 1.0, sequences, start, true).final_state;
  };
  const auto options = k.options().dtype(statistics_type(k));
  const auto unit_rows = at::eye(size, options).expand({sequences.count(), heads, size, size}).contiguous();
  auto log_decay = at::empty({sequences.count(), heads}, options);
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    log_decay[s].copy_(g.narrow(0, sequences.offsets[s], sequences.length(s)).sum(0));
  }
  return {.state = final_state(v, {}),
          .transition = final_state(at::zeros({v.size(0), heads, size}, v.options()), unit_rows),
          .log_decay = log_decay};
}

}  // namespace hydra::ops
