// Launches of the forward scan by mma.sync and wgmma.
#include <cstddef>

#include "kernels/gated_delta/scan_forward.cuh"
#include "kernels/gated_delta/tensor_core.cuh"

namespace hydra::kernels {
namespace {

template <int kSize, int kGroups, bool kWgmma, bool kStatesOnly>
__global__ void __launch_bounds__(ScanForwardShared<kSize, kGroups, kWgmma, kStatesOnly>::kThreads, 1)
    scan_forward_kernel(const __grid_constant__ ScanForwardParams params) {
  extern __shared__ char memory[];
#if __CUDA_ARCH__ >= 800
  if constexpr (!kWgmma || HYDRA_WGMMA) {
    scan_forward<kSize, kGroups, kWgmma, kStatesOnly>(params, memory);
  }
#endif
}

template <int kSize, int kGroups, bool kWgmma, bool kStatesOnly>
cudaError_t launch(const ScanForwardParams& params, cudaStream_t stream) {
  using Shared = ScanForwardShared<kSize, kGroups, kWgmma, kStatesOnly>;
  const dim3 grid(static_cast<unsigned>(params.in.shape.sequences) * static_cast<unsigned>(params.in.shape.heads),
                  kSize / 64 / kGroups);
  return launch_block(scan_forward_kernel<kSize, kGroups, kWgmma, kStatesOnly>, grid, Shared::kThreads, Shared::kBytes,
                      params, stream);
}

template <bool kStatesOnly>
cudaError_t choose(bool wgmma, const ScanForwardParams& params, cudaStream_t stream) {
  if (params.in.shape.key_size == 64) {
    return wgmma ? launch<64, 1, true, kStatesOnly>(params, stream) : launch<64, 1, false, kStatesOnly>(params, stream);
  }
  if (!wgmma) {
    return launch<128, 1, false, kStatesOnly>(params, stream);
  }
  // Few sequences and heads: one block for each half of V fills the chip better than one for both.
  const auto blocks = static_cast<std::int64_t>(params.in.shape.sequences) * params.in.shape.heads;
  return blocks <= 66 ? launch<128, 1, true, kStatesOnly>(params, stream)
                      : launch<128, 2, true, kStatesOnly>(params, stream);
}

}  // namespace

cudaError_t launch_scan_forward(bool wgmma, bool states_only, const ScanForwardParams& params, cudaStream_t stream) {
  return states_only ? choose<true>(wgmma, params, stream) : choose<false>(wgmma, params, stream);
}

}  // namespace hydra::kernels
