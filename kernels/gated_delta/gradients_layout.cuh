#pragma once
// Chunk gradients: what a block keeps in shared memory, and the barriers between the warpgroups that multiply and the
// one that loads.

#include "kernels/gated_delta/scan_common.cuh"

namespace hydra::kernels {

// A chunk and head that a block works on. rows = 0: the block is through.
struct ChunkOfHead {
  std::int32_t first_row;
  std::int32_t rows;
  std::int32_t head;
  std::int32_t key_head;
  std::uint32_t index;  // slot * heads + head
};
struct alignas(16) GradientsChunk {
  ChunkGates gates;
  ChunkOfHead chunk;
};

// Sums of a chunk's rows or columns.
struct alignas(16) GradientsSums {
  float row[2][64];        // by the two warpgroups: parts of dG by row
  float column[2][4][64];  // and by column, subtracted: one a warp, of its columns on and below the diagonal
  float dv_w[2][64];       // dV.W over the columns of a warpgroup
  float after[8];          // sum of k.dK_dS' by warp of the two warpgroups
  float product[4];        // gamma_C <dS', S> by warp of the third
};

// kKeyStages: how often K, V and the gates are there, for one chunk each; all else is there once.
template <int kSize, int kKeyStages = kSize == 64 ? 1 : 2>
struct GradientsShared {
  static constexpr int kStages = kKeyStages;
  static constexpr int kThreads = 384;
  static constexpr int kRows = kSize / 64 * kTileBytes;  // 64 rows of kSize
  static constexpr int kState = kSize / 64 * kRows;      // kSize rows
  static constexpr int kK = 0;
  static constexpr int kV = kK + kStages * kRows;  // V, then beta W, then U
  static constexpr int kS = kV + kStages * kRows;
  static constexpr int kQ = kS + kState;
  static constexpr int kDO = kQ + kRows;
  static constexpr int kDV = kDO + kRows;
  static constexpr int kDS = kDV + kRows;
  static constexpr int kR = kDS + kState;  // R, then dN
  static constexpr int kM = kR + kTileBytes;
  static constexpr int kStagingWarp = 16 * 128;
  static constexpr int kStaging = kM + kTileBytes;
  static constexpr int kChunks = kStaging + 8 * kStagingWarp;
  static constexpr int kSums = kChunks + kStages * static_cast<int>(sizeof(GradientsChunk));
  static constexpr int kBarriers = (kSums + 2 * static_cast<int>(sizeof(GradientsSums)) + 7) / 8 * 8;
  static constexpr int kBytes = kBarriers + 16 * 8 + 1024;
  static constexpr int kDkWarps = kSize == 64 ? 4 : 8;  // that make dK: the last ones of 8
  static constexpr int kProductRegisters = 216;
  static constexpr int kLoadRegisters = 72;
  static_assert(kBytes <= 227 * 1024 && 2 * kProductRegisters + kLoadRegisters <= 504);
};

// Barriers: a buffer is `full` when the copies of the third warpgroup have landed (R, M and dN: when they are written),
// `empty` when the other two have read it.
template <class Shared>
struct GradientsBarriers {
  std::uint32_t base;
  __device__ std::uint32_t at(int i) const { return base + static_cast<std::uint32_t>(Shared::kBarriers + i * 8); }
  __device__ std::uint32_t state_full() const { return at(0); }
  __device__ std::uint32_t state_empty() const { return at(1); }
  __device__ std::uint32_t rows_full() const { return at(2); }  // dO and dV
  __device__ std::uint32_t rows_empty() const { return at(3); }
  __device__ std::uint32_t d_state_full() const { return at(4); }
  __device__ std::uint32_t d_state_empty() const { return at(5); }
  __device__ std::uint32_t query_full() const { return at(6); }
  __device__ std::uint32_t r_full() const { return at(7); }
  __device__ std::uint32_t factors_full() const { return at(8); }                // M and dN
  __device__ std::uint32_t keys_full(int stage) const { return at(9 + stage); }  // K, V and the gates
  __device__ std::uint32_t chunk_empty(int stage) const { return at(9 + Shared::kStages + stage); }  // and Q, M, dN
  __device__ void init() const {
    barrier_init(state_full(), 128);
    barrier_init(state_empty(), 8);
    barrier_init(rows_full(), 128);
    barrier_init(rows_empty(), 8);
    barrier_init(d_state_full(), 128);
    barrier_init(d_state_empty(), Shared::kDkWarps);
    barrier_init(query_full(), 128);
    barrier_init(r_full(), 4);
    barrier_init(factors_full(), 8);
    for (int i = 0; i < Shared::kStages; ++i) {
      barrier_init(keys_full(i), 128 + 32);  // the gates by one warp
      barrier_init(chunk_empty(i), 8);
    }
  }
};

__device__ __forceinline__ float sum_warp(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffffU, x, step);
  }
  return x;
}

}  // namespace hydra::kernels
