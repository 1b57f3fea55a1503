#pragma once
// Products of a warpgroup (4 warps, 64 rows) over bf16 tiles in shared memory, by wgmma or by mma.sync; operand and
// accumulator registers are the same for both. A tile is 64 rows of 64 columns (128 bytes a row) in the 128-byte
// swizzle: 16-byte piece c of row r lies at r * 128 + ((c ^ (r % 8)) * 16). Wider matrices are tiles side by side.

#include "kernels/gated_delta/mma_ptx.cuh"
#include "kernels/gated_delta/wgmma_ptx.cuh"

namespace hydra::kernels {

constexpr int kTileBytes = 64 * 128;

// Address of 16-byte piece `piece` of row `row`.
__device__ __forceinline__ std::uint32_t tile_address(std::uint32_t tile, int row, int piece) {
  return tile + static_cast<std::uint32_t>((piece >> 3) * kTileBytes + row * 128 + (((piece & 7) ^ (row & 7)) << 4));
}

// The descriptor of an operand that starts `bytes` further on.
__device__ __forceinline__ std::uint64_t advance(std::uint64_t descriptor, int bytes) {
  return (descriptor & 0xffffffff00000000U) |
         (static_cast<std::uint32_t>(descriptor) + static_cast<std::uint32_t>(bytes / 16));
}

// acc (+)= A B for 16 values of K, number `step`. A: 16 rows a warp in registers. B: rows are K (kRowsAreK; N then
// starts at block kFirst = 0 or 8) or rows are N. Blocks of 8 columns [kFirst, kFirst + kBlocks) of acc and B.
template <bool kWgmma, int kBlocks, int kFirst, bool kRowsAreK, bool kFresh, int kAll>
__device__ __forceinline__ void multiply(float (&acc)[kAll][4], const std::uint32_t (&a)[4], std::uint32_t b,
                                         int step) {
  if constexpr (kWgmma) {
    static_assert(!kRowsAreK || kFirst % 8 == 0);
    const auto start =
        kRowsAreK ? b + static_cast<std::uint32_t>(step * 16 * 128 + kFirst / 8 * kTileBytes)
                  : b + static_cast<std::uint32_t>((step >> 2) * kTileBytes + (step & 3) * 32 + kFirst * 8 * 128);
    wgmma_bf16<kBlocks, kFirst, kRowsAreK, kFresh>(acc, a, tile_descriptor(start, kTileBytes));
  } else {
    const int lane = recomputed(static_cast<int>(threadIdx.x % 32));
#pragma unroll
    for (int n = kFirst; n < kFirst + kBlocks; n += 2) {
      std::uint32_t r[4];
      if constexpr (kRowsAreK) {
        load_matrices_transposed(r, tile_address(b, step * 16 + (lane & 15), n + (lane >> 4)));
      } else {
        load_matrices(r, tile_address(b, n * 8 + (lane & 7) + ((lane >> 4) << 3), step * 2 + ((lane >> 3) & 1)));
      }
      if constexpr (kFresh) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          acc[n][i] = acc[n + 1][i] = 0.0F;
        }
      }
      mma_bf16(acc[n], a, r[0], r[1]);
      mma_bf16(acc[n + 1], a, r[2], r[3]);
    }
  }
}

// acc += A B^T for a lower triangular tile B (rows are N) and 64 values of K. mma.sync skips the blocks of zeros; wgmma
// does not: ranges of unequal width over the same accumulators make the compiler serialise the products.
template <bool kWgmma>
__device__ __forceinline__ void multiply_lower(float (&acc)[8][4], const std::uint32_t (&a)[4][4], std::uint32_t b) {
  multiply<kWgmma, 8, 0, false, false>(acc, a[0], b, 0);
  multiply<kWgmma, kWgmma ? 8 : 6, kWgmma ? 0 : 2, false, false>(acc, a[1], b, 1);
  multiply<kWgmma, kWgmma ? 8 : 4, kWgmma ? 0 : 4, false, false>(acc, a[2], b, 2);
  multiply<kWgmma, kWgmma ? 8 : 2, kWgmma ? 0 : 6, false, false>(acc, a[3], b, 3);
}
// acc += A B for a lower triangular tile B (rows are K).
template <bool kWgmma>
__device__ __forceinline__ void multiply_lower_rows(float (&acc)[8][4], const std::uint32_t (&a)[4][4],
                                                    std::uint32_t b) {
  multiply<kWgmma, kWgmma ? 8 : 2, 0, true, false>(acc, a[0], b, 0);
  multiply<kWgmma, kWgmma ? 8 : 4, 0, true, false>(acc, a[1], b, 1);
  multiply<kWgmma, kWgmma ? 8 : 6, 0, true, false>(acc, a[2], b, 2);
  multiply<kWgmma, 8, 0, true, false>(acc, a[3], b, 3);
}

// Zeros over whole tiles by all threads of the block.
__device__ __forceinline__ void clear_tiles(std::uint32_t tile, int bytes, int threads) {
  for (int i = static_cast<int>(threadIdx.x) * 16; i < bytes; i += threads * 16) {
    asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};" ::"r"(tile + static_cast<std::uint32_t>(i)), "r"(0)
                 : "memory");
  }
  fence_for_wgmma();
}

// A operand of rows [16 warp, 16 warp + 16) and columns [16 step, 16 step + 16) of a tile.
__device__ __forceinline__ void load_operand(std::uint32_t (&a)[4], std::uint32_t tile, int warp, int step) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  load_matrices(a, tile_address(tile, warp * 16 + (lane & 15), step * 2 + (lane >> 4)));
}
// The same of the tile's transpose.
__device__ __forceinline__ void load_operand_transposed(std::uint32_t (&a)[4], std::uint32_t tile, int warp, int step) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  load_matrices_transposed(
      a, tile_address(tile, step * 16 + (lane & 7) + ((lane >> 4) << 3), warp * 2 + ((lane >> 3) & 1)));
}
// The other way: an A operand to its rows and columns of a tile.
template <bool kStoreMatrix>
__device__ __forceinline__ void store_operand(const std::uint32_t (&a)[4], std::uint32_t tile, int warp, int step) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if constexpr (kStoreMatrix) {
    store_matrices(tile_address(tile, warp * 16 + (lane & 15), step * 2 + (lane >> 4)), a);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      store_shared(tile_address(tile, warp * 16 + (lane >> 2) + (i & 1) * 8, step * 2 + (i >> 1)) +
                       static_cast<std::uint32_t>((lane & 3) * 4),
                   a[i]);
    }
  }
}
// An A operand from accumulators: columns [16 step, 16 step + 16).
__device__ __forceinline__ void pack_operand(std::uint32_t (&a)[4], const float (&low)[4], const float (&high)[4]) {
  a[0] = pack_bf16(low[0], low[1]);
  a[1] = pack_bf16(low[2], low[3]);
  a[2] = pack_bf16(high[0], high[1]);
  a[3] = pack_bf16(high[2], high[3]);
}

// acc [64, 8 kBlocks] (+)= A B over kSteps * 16 values of K, A being tiles whose rows are M; B as for multiply, where
// tiles of further K lie `k_stride` bytes apart if its rows are K. Leaves the group of products open.
template <bool kWgmma, int kBlocks, bool kRowsAreK, int kSteps, bool kFresh, int kAll>
__device__ __forceinline__ void multiply_tiles(float (&acc)[kAll][4], std::uint32_t a, std::uint32_t b, int warp,
                                               std::uint32_t k_stride = 0) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const auto b_tile = kRowsAreK ? b + static_cast<std::uint32_t>(step >> 2) * k_stride : b;
    const int b_step = kRowsAreK ? step & 3 : step;
    if constexpr (kWgmma) {
      const int column = (step >> 2) * kTileBytes + (step & 3) * 32;
      const auto a_start = advance(tile_descriptor(a, kTileBytes), column);
      const auto b_start = advance(tile_descriptor(b, kTileBytes),
                                   kRowsAreK ? (step >> 2) * static_cast<int>(k_stride) + b_step * 16 * 128 : column);
      if (kFresh && step == 0) {
        wgmma_bf16_tiles<kBlocks, 0, kRowsAreK, true>(acc, a_start, b_start);
      } else {
        wgmma_bf16_tiles<kBlocks, 0, kRowsAreK, false>(acc, a_start, b_start);
      }
    } else {
      std::uint32_t operand[4];
      load_operand(operand, a, warp, step);
      if (kFresh && step == 0) {
        multiply<false, kBlocks, 0, kRowsAreK, true>(acc, operand, b_tile, b_step);
      } else {
        multiply<false, kBlocks, 0, kRowsAreK, false>(acc, operand, b_tile, b_step);
      }
    }
  }
}

// Waits until at most kPending groups of products are in flight (mma.sync products are never in flight).
template <bool kWgmma, int kPending>
__device__ __forceinline__ void wait_products() {
  if constexpr (kWgmma) {
    wgmma_wait<kPending>();
  }
}
template <bool kWgmma>
__device__ __forceinline__ void begin_products() {
  if constexpr (kWgmma) {
    wgmma_fence();
  }
}
template <bool kWgmma>
__device__ __forceinline__ void end_products() {
  if constexpr (kWgmma) {
    wgmma_commit();
  }
}
// Forces packed operands to exist here, so that what they were packed from need not live on.
template <int kSteps>
__device__ __forceinline__ void pin(std::uint32_t (&a)[kSteps][4]) {
#pragma unroll
  for (int n = 0; n < kSteps; ++n) {
    asm volatile("" : "+r"(a[n][0]), "+r"(a[n][1]), "+r"(a[n][2]), "+r"(a[n][3])::"memory");
  }
}
// Keeps the compiler from moving reads of accumulators above the wait for them.
template <int kAll>
__device__ __forceinline__ void pin(float (&acc)[kAll][4]) {
#pragma unroll
  for (int n = 0; n < kAll; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      asm volatile("" : "+f"(acc[n][i])::"memory");
    }
  }
}

}  // namespace hydra::kernels
