#pragma once
// Parts of the tensor-core passes, each enqueued on a stream, and the launch they share.

#include <cuda_runtime.h>

#include "kernels/gated_delta/params.h"

namespace hydra::kernels {

struct ScanForwardParams {
  GatedDeltaInput in;
  HeadRows output;
  float* final_state;
  void* inverse;  // [slots, H, 64, 64] bf16; written (null: not wanted), read by the pass for states only
  void* states;   // [slots, H, V, K] bf16: the state at each chunk's start, written by the pass for states only
};
cudaError_t launch_scan_forward(bool wgmma, bool states_only, const ScanForwardParams& params, cudaStream_t stream);

struct ScanReverseParams {
  GatedDeltaInput in;
  ConstHeadRows d_output;
  const float* d_final_state;
  const void* inverse;     // [slots, H, 64, 64] bf16
  HeadRows dv;             // written: [N, H, V]
  void* d_states;          // written: [slots, H, V, K] bf16, the gradient of the state after each chunk
  float* d_initial_state;  // or null
};
cudaError_t launch_scan_reverse(bool wgmma, const ScanReverseParams& params, cudaStream_t stream);

struct GradientsParams {
  GatedDeltaInput in;
  ConstHeadRows d_output;
  ConstHeadRows dv;
  const void* inverse;
  const void* states;    // [slots, H, V, K] bf16 at each chunk's start
  const void* d_states;  // [slots, H, V, K] bf16 after each chunk
  HeadRows dq, dk;
  float* dg;
  float* d_beta;
};
cudaError_t launch_gradients(bool wgmma, const GradientsParams& params, cudaStream_t stream);

// Launches a kernel that takes one parameter struct and `shared_bytes` of dynamic shared memory.
template <class Params>
cudaError_t launch_block(void (*kernel)(Params), dim3 grid, int threads, int shared_bytes, const Params& params,
                         cudaStream_t stream) {
  const auto error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != cudaSuccess) {
    return error;
  }
  kernel<<<grid, static_cast<unsigned>(threads), static_cast<std::size_t>(shared_bytes), stream>>>(params);
  return cudaGetLastError();
}

}  // namespace hydra::kernels
