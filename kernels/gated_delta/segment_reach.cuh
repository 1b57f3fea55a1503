#pragma once
// How much of a segment its summary needs. What has decayed below 2^-24 is lost in fp32 beside what came after it, and
// with keys of length 1 and beta <= 2 a step shrinks every state by at least its decay (kernels.md section 4).

#include <cstdint>

namespace hydra::kernels {

// Rows from `g` on, `step` floats apart, until their log decays sum up to less than ln 2^-24, rounded up to a multiple
// of kThreads; `rows` if they do not. For all threads of the block; `shared`: kReachFloats<kThreads> floats, which may
// be written again after the block's next barrier.
constexpr int kReachParts = 8;
template <int kThreads>
constexpr int kReachFloats = kReachParts* kThreads / 32;

template <int kThreads>
__device__ int rows_within_reach(const float* g, std::int64_t step, int rows, float* shared) {
  constexpr float kLost = -16.6355323F;
  constexpr int kWarps = kThreads / 32;
  const int thread = static_cast<int>(threadIdx.x);
  float total = 0.0F;
  for (int first = 0; first < rows; first += kReachParts * kThreads) {
    float sum[kReachParts];
#pragma unroll
    for (int part = 0; part < kReachParts; ++part) {
      const int row = first + part * kThreads + thread;
      sum[part] = row < rows ? g[row * step] : 0.0F;
    }
#pragma unroll
    for (int part = 0; part < kReachParts; ++part) {
#pragma unroll
      for (int other = 16; other > 0; other /= 2) {
        sum[part] += __shfl_xor_sync(0xffffffffU, sum[part], other);
      }
      if (thread % 32 == 0) {
        shared[part * kWarps + thread / 32] = sum[part];
      }
    }
    __syncthreads();
    for (int part = 0; part < kReachParts; ++part) {
      for (int warp = 0; warp < kWarps; ++warp) {
        total += shared[part * kWarps + warp];
      }
      if (total < kLost) {
        const int reach = first + (part + 1) * kThreads;
        return reach < rows ? reach : rows;
      }
    }
    __syncthreads();
  }
  return rows;
}

}  // namespace hydra::kernels
