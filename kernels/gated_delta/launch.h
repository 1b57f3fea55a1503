#pragma once
// Launchers of the gated delta rule. All enqueue on `stream`, never synchronise and can be captured in a CUDA graph;
// results are the same bits for the same inputs (no atomics). Each path says what it takes; gated_delta_path chooses.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/gated_delta/params.h"

namespace hydra::kernels {

enum class GatedDeltaPath : std::int32_t {
  portable,  // fp32 arithmetic on CUDA cores; fp32 and bf16 operands, any even K, V <= 256
  mma,       // mma.sync tensor cores (sm_80 and later); bf16, K = V = 64 or 128
  wgmma,     // wgmma tensor cores (sm_90a); bf16, K = V = 64 or 128
};

// True if `path` can run this input on a device of compute capability major.minor with `shared_bytes` of shared memory
// a block (cudaDevAttrMaxSharedMemoryPerBlockOptin). Strides and pointers of bf16 operands must be multiples of 16
// bytes for mma and wgmma.
bool gated_delta_supports(GatedDeltaPath path, const GatedDeltaInput& in, int major, int shared_bytes);

// Bytes that the forward pass keeps for the backward pass, and those that each needs only while it runs.
std::size_t gated_delta_saved(GatedDeltaPath path, const GatedDeltaInput& in);
std::size_t gated_delta_forward_scratch(GatedDeltaPath path, const GatedDeltaInput& in);
std::size_t gated_delta_backward_scratch(GatedDeltaPath path, const GatedDeltaInput& in);

cudaError_t launch_gated_delta_forward(GatedDeltaPath path, const GatedDeltaForward& params, cudaStream_t stream);
cudaError_t launch_gated_delta_backward(GatedDeltaPath path, const GatedDeltaBackward& params, cudaStream_t stream);

// The decode step: fp32 arithmetic, fp32 or bf16 operands, any even K, V <= 256.
cudaError_t launch_gated_delta_decode(const GatedDeltaDecode& params, cudaStream_t stream);

}  // namespace hydra::kernels
