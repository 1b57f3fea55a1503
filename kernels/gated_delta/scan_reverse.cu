// Launches of the reverse scan by mma.sync and wgmma.
#include <cstddef>

#include "kernels/gated_delta/scan_reverse.cuh"
#include "kernels/gated_delta/tensor_core.cuh"

namespace hydra::kernels {
namespace {

template <int kSize, int kGroups, bool kWgmma>
__global__ void __launch_bounds__(ScanReverseShared<kSize, kGroups, kWgmma>::kThreads, 1)
    scan_reverse_kernel(const __grid_constant__ ScanReverseParams params) {
  extern __shared__ char memory[];
#if __CUDA_ARCH__ >= 800
  if constexpr (!kWgmma || HYDRA_WGMMA) {
    scan_reverse<kSize, kGroups, kWgmma>(params, memory);
  }
#endif
}

template <int kSize, int kGroups, bool kWgmma>
cudaError_t launch(const ScanReverseParams& params, cudaStream_t stream) {
  using Shared = ScanReverseShared<kSize, kGroups, kWgmma>;
  const dim3 grid(static_cast<unsigned>(params.in.shape.sequences) * static_cast<unsigned>(params.in.shape.heads),
                  kSize / 64 / kGroups);
  return launch_block(scan_reverse_kernel<kSize, kGroups, kWgmma>, grid, Shared::kThreads, Shared::kBytes,
                      params, stream);
}

cudaError_t choose(bool wgmma, const ScanReverseParams& params, cudaStream_t stream) {
  if (params.in.shape.key_size == 64) {
    return wgmma ? launch<64, 1, true>(params, stream) : launch<64, 1, false>(params, stream);
  }
  if (!wgmma) {
    return launch<128, 1, false>(params, stream);
  }
  // Few sequences and heads: one block for each half of V fills the chip better than one for both.
  const auto blocks = static_cast<std::int64_t>(params.in.shape.sequences) * params.in.shape.heads;
  return blocks <= 66 ? launch<128, 1, true>(params, stream)
                      : launch<128, 2, true>(params, stream);
}

}  // namespace

cudaError_t launch_scan_reverse(bool wgmma, const ScanReverseParams& params, cudaStream_t stream) {
  return choose(wgmma, params, stream);
}

}  // namespace hydra::kernels
