// Which algorithm a call of the gated delta rule takes.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <atomic>

#include "gated_delta_blocks.hpp"
#include "gated_delta_function.hpp"
#include "hydrahead/ops/gated_delta.hpp"

namespace hydra::ops {
namespace {

constexpr std::int64_t kRecurrentRows = 8;  // a step this long or shorter runs row by row

std::atomic<std::optional<GatedDeltaPath>> forced{std::nullopt};

}  // namespace

void force_gated_delta_path(std::optional<GatedDeltaPath> path) { forced = path; }
std::optional<GatedDeltaPath> forced_gated_delta_path() { return forced; }

const char* name_of(GatedDeltaPath path) {
  constexpr std::array<const char*, 4> names{"aten", "portable", "mma", "wgmma"};
  return names[static_cast<std::size_t>(path)];
}

GatedDeltaOutput gated_delta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                             const at::Tensor& beta, double scale, const Sequences& sequences,
                             const at::Tensor& initial_state, bool want_final_state) {
#if HYDRA_CUDA
  if (q.is_cuda()) {
    check_gated_delta(q, k, v, g, beta, sequences, initial_state);
    const GatedDeltaTensors x{q, k, v, g, beta, initial_state, sequences.offsets_device, scale};
    if (const auto path = gated_delta_path(x); path != GatedDeltaPath::aten) {
      return gated_delta_by_kernels(path, x, want_final_state);
    }
  }
#endif
  return gated_delta_aten(q, k, v, g, beta, scale, sequences, initial_state, want_final_state);
}

GatedDeltaOutput gated_delta_step(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                                  const at::Tensor& beta, double scale, const Sequences& sequences,
                                  const at::Tensor& initial_state) {
  const at::NoGradGuard no_grad;
  if (sequences.max_length > kRecurrentRows) {
    return gated_delta(q, k, v, g, beta, scale, sequences, initial_state, /*want_final_state=*/true);
  }
#if HYDRA_CUDA
  if (q.is_cuda()) {
    check_gated_delta(q, k, v, g, beta, sequences, initial_state);
    const GatedDeltaTensors x{q, k, v, g, beta, initial_state, sequences.offsets_device, scale};
    if (gated_delta_path(x) != GatedDeltaPath::aten) {
      const auto prepared = prepared_for(GatedDeltaPath::portable, x);
      auto state = initial_state.defined()
                       ? prepared.initial_state
                       : at::zeros({sequences.count(), v.size(1), v.size(2), q.size(2)}, prepared.g.options());
      const auto output = gated_delta_decode(prepared, state);
      return {output, state};
    }
  }
#endif
  return gated_delta_recurrent(q, k, v, g, beta, scale, sequences, initial_state);
}

}  // namespace hydra::ops
