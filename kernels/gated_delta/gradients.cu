// Launches of the chunk gradients by mma.sync and wgmma.
#include "kernels/gated_delta/gradients.cuh"

namespace hydra::kernels {
namespace {

template <int kSize, bool kWgmma>
__global__ void __launch_bounds__(GradientsShared<kSize>::kThreads, 1)
    gradients_kernel(const __grid_constant__ GradientsParams params) {
  extern __shared__ char memory[];
#if __CUDA_ARCH__ >= 800
  if constexpr (!kWgmma || HYDRA_WGMMA) {
    chunk_gradients<kSize, kWgmma>(params, memory);
  }
#endif
}

template <int kSize, bool kWgmma>
cudaError_t launch(const GradientsParams& params, cudaStream_t stream) {
  using Shared = GradientsShared<kSize>;
  const auto blocks = params.in.shape.slots() * params.in.shape.heads;
  return launch_block(gradients_kernel<kSize, kWgmma>, dim3(static_cast<unsigned>(blocks)), Shared::kThreads,
                      Shared::kBytes, params, stream);
}

}  // namespace

cudaError_t launch_gradients(bool wgmma, const GradientsParams& params, cudaStream_t stream) {
  if (params.in.shape.key_size == 64) {
    return wgmma ? launch<64, true>(params, stream) : launch<64, false>(params, stream);
  }
  return wgmma ? launch<128, true>(params, stream) : launch<128, false>(params, stream);
}

}  // namespace hydra::kernels
