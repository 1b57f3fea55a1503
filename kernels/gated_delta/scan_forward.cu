// Launches of the forward scan by mma.sync and wgmma.
#include <cstddef>

#include "kernels/gated_delta/scan_forward.cuh"
#include "kernels/gated_delta/tensor_core.cuh"

namespace hydra::kernels {
namespace {

template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__global__ void __launch_bounds__(ScanForwardShared<kSize, kGroups, kWgmma, kMode>::kThreads, 1)
    scan_forward_kernel(const __grid_constant__ ScanForwardParams params) {
  extern __shared__ char memory[];
#if __CUDA_ARCH__ >= 800
  if constexpr (!kWgmma || HYDRA_WGMMA) {
    scan_forward<kSize, kGroups, kWgmma, kMode>(params, memory);
  }
#endif
}

template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
cudaError_t launch(const ScanForwardParams& params, cudaStream_t stream) {
  using Shared = ScanForwardShared<kSize, kGroups, kWgmma, kMode>;
  const auto blocks = segment_slots(params.in.shape, params.segments.chunks) * params.in.shape.heads;
  const dim3 grid(static_cast<unsigned>(blocks), kSize / 64 / kGroups * (kMode == ScanMode::summary ? 2 : 1));
  return launch_block(scan_forward_kernel<kSize, kGroups, kWgmma, kMode>, grid, Shared::kThreads, Shared::kBytes,
                      params, stream);
}

template <ScanMode kMode>
cudaError_t choose(bool wgmma, const ScanForwardParams& params, cudaStream_t stream) {
  if (params.in.shape.key_size == 64) {
    return wgmma ? launch<64, 1, true, kMode>(params, stream) : launch<64, 1, false, kMode>(params, stream);
  }
  if (!wgmma) {
    return launch<128, 1, false, kMode>(params, stream);
  }
  // Few segments and heads: one block for each half of V fills the chip better than one for both.
  const auto blocks = segment_slots(params.in.shape, params.segments.chunks) * params.in.shape.heads;
  return blocks <= 66 ? launch<128, 1, true, kMode>(params, stream) : launch<128, 2, true, kMode>(params, stream);
}

}  // namespace

cudaError_t launch_scan_forward(bool wgmma, ScanMode mode, const ScanForwardParams& params, cudaStream_t stream) {
  switch (mode) {
    case ScanMode::output: return choose<ScanMode::output>(wgmma, params, stream);
    case ScanMode::states: return choose<ScanMode::states>(wgmma, params, stream);
    case ScanMode::summary: return choose<ScanMode::summary>(wgmma, params, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace hydra::kernels
