// Launches of the reverse scan by mma.sync and wgmma.
#include <cstddef>

#include "kernels/gated_delta/scan_reverse.cuh"
#include "kernels/gated_delta/tensor_core.cuh"

namespace hydra::kernels {
namespace {

template <int kSize, int kGroups, bool kWgmma, ReverseMode kMode>
__global__ void __launch_bounds__(ScanReverseShared<kSize, kGroups, kWgmma, kMode>::kThreads, 1)
    scan_reverse_kernel(const __grid_constant__ ScanReverseParams params) {
  extern __shared__ char memory[];
#if __CUDA_ARCH__ >= 800
  if constexpr (!kWgmma || HYDRA_WGMMA) {
    scan_reverse<kSize, kGroups, kWgmma, kMode>(params, memory);
  }
#endif
}

template <int kSize, int kGroups, bool kWgmma, ReverseMode kMode>
cudaError_t launch(const ScanReverseParams& params, cudaStream_t stream) {
  using Shared = ScanReverseShared<kSize, kGroups, kWgmma, kMode>;
  const auto blocks = segment_slots(params.in.shape, params.segments.chunks) * params.in.shape.heads;
  const dim3 grid(static_cast<unsigned>(blocks), kSize / 64 / kGroups);
  return launch_block(scan_reverse_kernel<kSize, kGroups, kWgmma, kMode>, grid, Shared::kThreads, Shared::kBytes,
                      params, stream);
}

template <ReverseMode kMode>
cudaError_t choose(bool wgmma, const ScanReverseParams& params, cudaStream_t stream) {
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

cudaError_t launch_scan_reverse(bool wgmma, ReverseMode mode, const ScanReverseParams& params, cudaStream_t stream) {
  switch (mode) {
    case ReverseMode::gradients: return choose<ReverseMode::gradients>(wgmma, params, stream);
    case ReverseMode::summary: return choose<ReverseMode::summary>(wgmma, params, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace hydra::kernels
