// States at the starts of segments (or their gradients at the ends) from the segments' summaries, fp32 on CUDA cores:
// the only part of a scan over segments that is sequential over all of a sequence.
#include "kernels/gated_delta/scan_common.cuh"
#include "kernels/gated_delta/tensor_core.cuh"

namespace hydra::kernels {
namespace {

constexpr int kRowsOfBlock = 8;  // rows of V a block carries along

// kReverse: states[i - 1] += states[i] Phi_i^T for i from the sequence's last segment down to 1, else
// states[i + 1] += states[i] Phi_i for i from 1 up. One thread a column; the rows at hand are in shared memory.
template <int kSize, bool kReverse>
__global__ void __launch_bounds__(kSize) segment_states_kernel(GatedDeltaInput in, SegmentStates segments) {
  __shared__ float at[kRowsOfBlock][kSize];
  __shared__ float phi[32][kSize + 1];
  const int heads = in.shape.heads;
  const int sequence = static_cast<int>(blockIdx.x) / heads;
  const int head = static_cast<int>(blockIdx.x) % heads;
  const int row = static_cast<int>(blockIdx.y) * kRowsOfBlock;
  const int column = static_cast<int>(threadIdx.x);
  const auto range = sequence_range(in.offsets, sequence);
  const int count = (range.chunks + segments.chunks - 1) / segments.chunks;
  const auto first_slot = range.first_row / (static_cast<std::int64_t>(segments.chunks) * kGatedDeltaChunk) + sequence;
  const auto matrix = [&](int segment) { return ((first_slot + segment) * heads + head) * kSize * kSize; };

  for (int step = 1; step + 1 < count; ++step) {
    const int from = kReverse ? count - 1 - step : step;
    const int to = kReverse ? from - 1 : from + 1;
    // Reverse: the gradient of segment from's end lies at `from`; its start is the end of the segment before.
    const auto* start = segments.states + matrix(from) + row * kSize;
    auto* end = segments.states + matrix(to) + row * kSize;
    const auto* transition = segments.transitions + matrix(from);
    __syncthreads();
    for (int r = 0; r < kRowsOfBlock; ++r) {
      at[r][column] = start[r * kSize + column];
    }
    float sum[kRowsOfBlock];
    for (int r = 0; r < kRowsOfBlock; ++r) {
      sum[r] = end[r * kSize + column];
    }
    for (int k = 0; k < kSize; k += 32) {
      __syncthreads();
      for (int i = column; i < 32 * kSize; i += kSize) {  // Phi's rows k..., or the rows k... of its transpose
        const int r = kReverse ? i % 32 : i / kSize;
        const int c = kReverse ? i / 32 : i % kSize;
        phi[r][c] = kReverse ? transition[c * kSize + k + r] : transition[(k + r) * kSize + c];
      }
      __syncthreads();
#pragma unroll 8
      for (int j = 0; j < 32; ++j) {
        const float x = phi[j][column];
#pragma unroll
        for (int r = 0; r < kRowsOfBlock; ++r) {
          sum[r] += at[r][k + j] * x;
        }
      }
    }
    for (int r = 0; r < kRowsOfBlock; ++r) {
      end[r * kSize + column] = sum[r];
    }
  }
}

template <int kSize>
cudaError_t launch(bool reverse, const GatedDeltaInput& in, const SegmentStates& segments, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(in.shape.sequences) * static_cast<unsigned>(in.shape.heads),
                  kSize / kRowsOfBlock);
  if (reverse) {
    segment_states_kernel<kSize, true><<<grid, kSize, 0, stream>>>(in, segments);
  } else {
    segment_states_kernel<kSize, false><<<grid, kSize, 0, stream>>>(in, segments);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_segment_states(bool reverse, const GatedDeltaInput& in, const SegmentStates& segments,
                                  cudaStream_t stream) {
  return in.shape.key_size == 64 ? launch<64>(reverse, in, segments, stream)
                                 : launch<128>(reverse, in, segments, stream);
}

}  // namespace hydra::kernels
