#pragma once
// What the scans over a sequence's chunks share: which rows a block works on, and moving states between registers and
// memory. A scan keeps the state transposed, S^T [V, K], in the registers of one warpgroup per 64 rows of V.

#include <cstddef>

#include "kernels/gated_delta/chunk_loads.cuh"

namespace hydra::kernels {

// One sequence and head.
struct SequenceRange {
  std::int64_t first_row;
  std::int64_t first_slot;
  int length;
  int chunks;
};
__device__ __forceinline__ SequenceRange sequence_range(const std::int32_t* offsets, int sequence) {
  const std::int64_t first = offsets[sequence];
  const int length = static_cast<int>(offsets[sequence + 1] - first);
  return {first, first / kGatedDeltaChunk + sequence, length, (length + kGatedDeltaChunk - 1) / kGatedDeltaChunk};
}

// The sequence that owns a slot (the last one that starts at or before it); sequence s has the slots from
// offsets[s] / slot_rows + s on.
__device__ __forceinline__ int sequence_of_slot(const std::int32_t* offsets, int sequences, std::int64_t slot,
                                                std::int64_t slot_rows) {
  int low = 0;
  int high = sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (offsets[middle] / slot_rows + middle <= slot) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// A run of chunks of one sequence, which one block scans. Slot and numbering as for chunks, with segment_chunks * 64
// rows a segment; a sequence without rows has one segment without chunks.
struct Segment {
  SequenceRange sequence;
  int sequence_index;
  int index;  // within the sequence
  int count;  // of the sequence; index >= count: the slot is not used
  int first_chunk;
  int chunks;
};
__device__ __forceinline__ Segment segment_of_slot(const std::int32_t* offsets, int sequences, std::int64_t slot,
                                                   int segment_chunks) {
  const auto rows = static_cast<std::int64_t>(segment_chunks) * kGatedDeltaChunk;
  Segment s;
  s.sequence_index = sequence_of_slot(offsets, sequences, slot, rows);
  s.sequence = sequence_range(offsets, s.sequence_index);
  s.index = static_cast<int>(slot - (s.sequence.first_row / rows + s.sequence_index));
  const int count = (s.sequence.chunks + segment_chunks - 1) / segment_chunks;
  s.count = count > 1 ? count : 1;
  s.first_chunk = s.index * segment_chunks;
  const int left = s.sequence.chunks - s.first_chunk;
  s.chunks = left < segment_chunks ? left : segment_chunks;
  return s;
}

__device__ __forceinline__ const void* head_rows(const ConstHeadRows& rows, std::int64_t row, int head,
                                                 int column = 0) {
  return static_cast<const char*>(rows.data) + (row * rows.row_stride + head * rows.head_stride + column) * 2;
}

// Barriers of the block: full and empty per stage, then full and empty per factor slot.
template <int kStages>
struct ScanBarriers {
  std::uint32_t base;
  __device__ std::uint32_t full(int stage) const { return base + static_cast<std::uint32_t>(stage * 8); }
  __device__ std::uint32_t empty(int stage) const { return base + static_cast<std::uint32_t>((kStages + stage) * 8); }
  __device__ std::uint32_t factors_full(int slot) const {
    return base + static_cast<std::uint32_t>((2 * kStages + slot) * 8);
  }
  __device__ std::uint32_t factors_empty(int slot) const {
    return base + static_cast<std::uint32_t>((2 * kStages + 2 + slot) * 8);
  }
  // `consumers` warps read the tiles, `readers` of them the factors, which 4 warps write.
  __device__ void init(int consumers, int readers) const {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full(i), kProducerThreads + 32);  // copies of every producer thread, gates of one warp
      barrier_init(empty(i), consumers);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(factors_full(i), 4);
      barrier_init(factors_empty(i), readers);
    }
  }
};

// Counts a warp's arrival once all its lanes are through.
__device__ __forceinline__ void arrive_warp(std::uint32_t barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    barrier_arrive(barrier);
  }
}

// exp(G_i - G_j) for accumulator rows i = row, row + 8 and the columns j of block n.
struct FourValues {
  float x[4];  // in the order of an accumulator block
};
struct RowTotals {
  float low, high;
};
__device__ __forceinline__ RowTotals row_totals(std::uint32_t gates, int row) {
  const auto at = gates + static_cast<std::uint32_t>(offsetof(ChunkGates, total)) + static_cast<std::uint32_t>(row * 4);
  return {load_shared_float(at), load_shared_float(at + 32)};
}
__device__ __forceinline__ FourValues decays(std::uint32_t gates, const RowTotals& rows, int n) {
  const auto column = (static_cast<std::uint32_t>(n) * 8 + 2 * (threadIdx.x % 4)) * 4;
  const auto total = load_shared_float2(gates + static_cast<std::uint32_t>(offsetof(ChunkGates, total)) + column);
  return {{exp2_fast(rows.low - total.x), exp2_fast(rows.low - total.y), exp2_fast(rows.high - total.x),
           exp2_fast(rows.high - total.y)}};
}

// The lower triangle (kStrict: below the diagonal) of e * x in block n of rows `row` and `row + 8`; selects, because
// above the diagonal e may be infinite and x anything.
template <bool kStrict>
__device__ __forceinline__ FourValues lower(int row, int n, const FourValues& e, const FourValues& x) {
  const int distance = row - n * 8 - 2 * static_cast<int>(threadIdx.x % 4) - (kStrict ? 1 : 0);  // i - j
  return {{distance >= 0 ? e.x[0] * x.x[0] : 0.0F, distance >= 1 ? e.x[1] * x.x[1] : 0.0F,
           distance >= -8 ? e.x[2] * x.x[2] : 0.0F, distance >= -7 ? e.x[3] * x.x[3] : 0.0F}};
}
__device__ __forceinline__ void store_block(std::uint32_t tile, int row, int n, const FourValues& x) {
  const auto t = 4 * (threadIdx.x % 4);
  store_shared(tile_address(tile, row, n) + t, pack_bf16(x.x[0], x.x[1]));
  store_shared(tile_address(tile, row + 8, n) + t, pack_bf16(x.x[2], x.x[3]));
}
template <bool kStrict>
__device__ __forceinline__ void store_lower(std::uint32_t tile, int row, int n, const FourValues& e,
                                            const FourValues& x) {
  store_block(tile, row, n, lower<kStrict>(row, n, e, x));
}

// Accumulators of a warpgroup <-> [64, kColumns] fp32 rows (row stride kColumns); null reads as zero.
template <int kColumns>
__device__ __forceinline__ void read_state(float (&s)[kColumns / 8][4], const float* from, int warp) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = warp * 16 + (lane >> 2);
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
    const int column = n * 8 + (lane & 3) * 2;
    float2 low{};
    float2 high{};
    if (from != nullptr) {
      low = *reinterpret_cast<const float2*>(from + row * kColumns + column);
      high = *reinterpret_cast<const float2*>(from + (row + 8) * kColumns + column);
    }
    s[n][0] = low.x;
    s[n][1] = low.y;
    s[n][2] = high.x;
    s[n][3] = high.y;
  }
}
// Rows first_row... (16 of the warp) of the unit matrix.
template <int kColumns>
__device__ __forceinline__ void unit_rows(float (&s)[kColumns / 8][4], int first_row) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = first_row + (lane >> 2);
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[n][i] = row + (i >> 1) * 8 == n * 8 + (lane & 3) * 2 + (i & 1) ? 1.0F : 0.0F;
    }
  }
}
template <int kColumns>
__device__ __forceinline__ void write_state(const float (&s)[kColumns / 8][4], float* to, int warp) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = warp * 16 + (lane >> 2);
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
    const int column = n * 8 + (lane & 3) * 2;
    *reinterpret_cast<float2*>(to + row * kColumns + column) = make_float2(s[n][0], s[n][1]);
    *reinterpret_cast<float2*>(to + (row + 8) * kColumns + column) = make_float2(s[n][2], s[n][3]);
  }
}

// Writes 16 rows of A operands (bf16, kColumns wide, one warp) to rows of global memory, 16 bytes at a time. `staging`:
// 16 rows of kColumns * 2 bytes of this warp.
template <int kColumns>
__device__ __forceinline__ void write_operand_rows(const std::uint32_t (&a)[kColumns / 16][4], void* to,
                                                   std::uint32_t staging) {
  constexpr int kPieces = kColumns / 8;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int g = lane >> 2;
  const auto at = [&](int row, int piece) {
    return staging + static_cast<std::uint32_t>((row * kPieces + (piece ^ (row & 7))) * 16);
  };
#pragma unroll
  for (int step = 0; step < kColumns / 16; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      store_shared(at(g + (i & 1) * 8, step * 2 + (i >> 1)) + static_cast<std::uint32_t>((lane & 3) * 4), a[step][i]);
    }
  }
  __syncwarp();
#pragma unroll 2
  for (int i = lane; i < 16 * kPieces; i += 32) {
    const int row = i / kPieces;
    const int piece = i % kPieces;
    static_cast<uint4*>(to)[i] = load_shared_16(at(row, piece));
  }
  __syncwarp();
}

// Writes the transpose of a warp's accumulators: columns are the chunk's tokens, the 16 rows are 16 consecutive columns
// of `to`, whose rows are tokens. Rows from `rows` on are left out. `staging`: 64 x 32 bytes of this warp.
template <bool kStoreMatrix>
__device__ __forceinline__ void write_transposed(const float (&acc)[8][4], void* to, std::int64_t row_stride, int rows,
                                                 std::uint32_t staging) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto at = [&](int token, int piece) {
    return staging + static_cast<std::uint32_t>(token * 32 + ((piece ^ ((token >> 2) & 1)) << 4));
  };
#pragma unroll
  for (int n = 0; n < 8; n += 2) {
    const std::uint32_t r[4] = {pack_bf16(acc[n][0], acc[n][1]), pack_bf16(acc[n][2], acc[n][3]),
                                pack_bf16(acc[n + 1][0], acc[n + 1][1]), pack_bf16(acc[n + 1][2], acc[n + 1][3])};
    if constexpr (kStoreMatrix) {
#if __CUDA_ARCH__ >= 900
      const auto address = at(8 * (n + (lane >> 4)) + (lane & 7), (lane >> 3) & 1);
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]),
                   "r"(r[1]), "r"(r[2]), "r"(r[3])
                   : "memory");
#endif
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        store_shared(at(8 * (n + (i >> 1)) + (lane >> 2), i & 1) + static_cast<std::uint32_t>((lane & 3) * 4),
                     transpose_matrix(r[i]));
      }
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int token = i * 16 + (lane >> 1);
    const int piece = lane & 1;
    if (token < rows) {
      *reinterpret_cast<uint4*>(static_cast<char*>(to) + (token * row_stride + piece * 8) * 2) =
          load_shared_16(at(token, piece));
    }
  }
  __syncwarp();
}

}  // namespace hydra::kernels
