#pragma once
// Parts of the tensor-core passes, each enqueued on a stream, and the launch they share.

#include <cuda_runtime.h>

#include "kernels/gated_delta/params.h"

namespace hydra::kernels {

// Sequences are cut into segments of `chunks` chunks, so that few sequences and heads fill the GPU. States of segments
// have slots like chunks: offsets[s] / (64 chunks) + s + segment.
struct SegmentStates {
  std::int32_t chunks = 0;
  float* states = nullptr;       // [segment slots, H, V, K]: at a segment's start (gradients: at its end)
  float* transitions = nullptr;  // [segment slots, H, K, K]: Phi
};

inline std::int64_t segment_slots(const GatedDeltaShape& shape, std::int32_t chunks) {
  return shape.rows / (static_cast<std::int64_t>(chunks) * kGatedDeltaChunk) + shape.sequences;
}

enum class ScanMode : std::int32_t {
  output,   // writes the output, the final state and, if wanted, the inverse
  states,   // reads the inverse, writes the state at each chunk's start
  summary,  // writes the segments' summaries: N to the next segment's state, Phi to its transition
};

struct ScanForwardParams {
  GatedDeltaInput in;
  SegmentStates segments;
  HeadRows output;
  float* final_state;
  void* inverse;  // [slots, H, 64, 64] bf16
  void* states;   // [slots, H, V, K] bf16
};
cudaError_t launch_scan_forward(bool wgmma, ScanMode mode, const ScanForwardParams& params, cudaStream_t stream);

enum class ReverseMode : std::int32_t {
  gradients,  // writes dv, d_states and the initial state's gradient
  summary,    // writes the gradient of each segment's start, from a zero gradient of its end, to the segment before
};

struct ScanReverseParams {
  GatedDeltaInput in;
  SegmentStates segments;  // states: the gradient of each segment's end
  ConstHeadRows d_output;
  const float* d_final_state;
  const void* inverse;     // [slots, H, 64, 64] bf16
  HeadRows dv;             // written: [N, H, V]
  void* d_states;          // written: [slots, H, V, K] bf16, the gradient of the state after each chunk
  float* d_initial_state;  // or null
};
cudaError_t launch_scan_reverse(bool wgmma, ReverseMode mode, const ScanReverseParams& params, cudaStream_t stream);

// Turns summaries into states, in fp32: segment after segment states[i + 1] += states[i] Phi_i, or for gradients, in
// reverse, states[i - 1] += states[i] Phi_i^T.
cudaError_t launch_segment_states(bool reverse, const GatedDeltaInput& in, const SegmentStates& segments,
                                  cudaStream_t stream);

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
