#pragma once
// The producer of the chunk kernels: rows of one chunk and head from global memory into tiles, and its gates.

#include "kernels/gated_delta/params.h"
#include "kernels/gated_delta/products.cuh"

namespace hydra::kernels {

constexpr int kProducerThreads = 128;
constexpr float kLog2E = 1.4426950408889634F;

// As for int.
__device__ __forceinline__ std::int64_t recomputed(std::int64_t x) {
  std::int64_t y;
  asm volatile("mov.b64 %0, %1;" : "=l"(y) : "l"(x));
  return y;
}

// Gates of a chunk in shared memory. G is the cumulative log decay inside the chunk.
struct ChunkGates {
  float total[64];  // G_i log2(e)
  float gamma[64];  // exp(G_i)
  float rest[64];   // exp(G_63 - G_i)
  float beta[64];
};

// Smallest beta of the backward pass: it divides by beta, and a token with beta = 0 has a gradient of beta.
constexpr float kSmallestBeta = 0x1p-24F;

// Rows [0, rows) of `from` (row stride in elements, 64-row chunk of one head) into kSize / 64 tiles; zeros beyond.
template <int kSize, int kThreads = kProducerThreads>
__device__ __forceinline__ void load_tiles(std::uint32_t tile, const void* from, std::int64_t row_stride, int rows,
                                           int thread) {
  constexpr int kPieces = kSize / 8;
  constexpr int kRowStep = kThreads / kPieces;
  static_assert(kRowStep % 8 == 0, "the swizzle of a thread's rows must not change");
  const int piece = thread % kPieces;
  const int first = thread / kPieces;
  auto to = tile_address(tile, first, piece);
  const auto* source = static_cast<const char*>(from) + (first * row_stride + piece * 8) * 2;
#pragma unroll
  for (int row = 0; row < 64; row += kRowStep) {
    copy_async_16(to, source, first + row < rows);
    to += kRowStep * 128;
    source += kRowStep * row_stride * 2;
  }
}

// Cumulative gates of a chunk by one warp; `g` and `beta` point at the first row of the head, `stride` apart.
struct GateValues {
  float g[2], beta[2];
};
__device__ __forceinline__ GateValues read_gates(const float* g, const float* beta, std::int64_t stride, int rows) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  GateValues v;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = 2 * lane + i;
    v.g[i] = row < rows ? __ldg(g + row * stride) * kLog2E : 0.0F;
    v.beta[i] = row < rows ? __ldg(beta + row * stride) : 0.0F;
  }
  return v;
}
__device__ __forceinline__ void write_gates(ChunkGates& gates, const GateValues& v) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  float sum = v.g[0] + v.g[1];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float before = __shfl_up_sync(0xffffffffU, sum, step);
    sum += lane >= step ? before : 0.0F;
  }
  const float last = __shfl_sync(0xffffffffU, sum, 31);
  const float total[2] = {sum - v.g[1], sum};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    gates.total[2 * lane + i] = total[i];
    gates.gamma[2 * lane + i] = exp2_fast(total[i]);
    gates.rest[2 * lane + i] = exp2_fast(last - total[i]);
    gates.beta[2 * lane + i] = v.beta[i];
  }
}

}  // namespace hydra::kernels
