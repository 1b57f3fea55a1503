// Launches of the chunk gradients by mma.sync and wgmma: one block a multiprocessor.
#include "kernels/gated_delta/gradients.cuh"

namespace hydra::kernels {
namespace {

template <int kSize, int kStages, bool kWgmma>
__global__ void __launch_bounds__(GradientsShared<kSize, kStages>::kThreads, 1)
    gradients_kernel(const __grid_constant__ GradientsParams params) {
  extern __shared__ char memory[];
#if __CUDA_ARCH__ >= 800
  if constexpr (!kWgmma || HYDRA_WGMMA) {
    chunk_gradients<kSize, GradientsShared<kSize, kStages>, kWgmma>(params, memory);
  }
#endif
}

template <int kSize, int kStages, bool kWgmma>
cudaError_t launch(const GradientsParams& params, cudaStream_t stream) {
  using Shared = GradientsShared<kSize, kStages>;
  int device = 0;
  int blocks = 0;
  auto error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device);
  }
  if (error != cudaSuccess) {
    return error;
  }
  const auto chunks = params.in.shape.slots() * params.in.shape.heads;
  return launch_block(gradients_kernel<kSize, kStages, kWgmma>,
                      dim3(static_cast<unsigned>(chunks < blocks ? chunks : blocks)), Shared::kThreads, Shared::kBytes,
                      params, stream);
}

}  // namespace

cudaError_t launch_gradients(bool wgmma, const GradientsParams& params, cudaStream_t stream) {
  if (params.in.shape.key_size == 64) {
    return wgmma ? launch<64, 2, true>(params, stream) : launch<64, 1, false>(params, stream);
  }
  return wgmma ? launch<128, 2, true>(params, stream) : launch<128, 2, false>(params, stream);
}

}  // namespace hydra::kernels
