#pragma once
// Pieces of the portable gated delta-rule kernels: the chunk that a slot stands for, and the layout of
// the scans, in which a block of kKeys threads (K rounded up to 64, 128 or 256) holds K x 32 of a state in registers:
// kKeys / 32 threads share a column of V, and thread `part` of them has the keys 4 (part + kKeys / 32 m) .. + 3, m < 8.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element.cuh"
#include "kernels/gated_delta/params.h"

namespace hydra::kernels::portable {

constexpr int kColumns = 32;  // of V in a scan's block
constexpr int kPart = 32;     // keys of a thread
constexpr int kStaged = 16;   // rows that a scan loads at a time

template <class T>
__device__ const T* row_of(const ConstHeadRows& x, std::int64_t row, int head) {
  return static_cast<const T*>(x.data) + row * x.row_stride + head * x.head_stride;
}
template <class T>
__device__ T* row_of(const HeadRows& x, std::int64_t row, int head) {
  return static_cast<T*>(x.data) + row * x.row_stride + head * x.head_stride;
}

// Slot of the chunk that holds row `row` of sequence `s` (params.h).
__device__ inline std::int64_t slot_of(std::int64_t sequence_begin, int s, std::int64_t row) {
  return sequence_begin / kGatedDeltaChunk + s + (row - sequence_begin) / kGatedDeltaChunk;
}

struct Chunk {
  std::int64_t begin = 0;  // first row
  int rows = 0;            // 0: the slot holds no chunk
};

__device__ inline Chunk chunk_of(const std::int32_t* offsets, int sequences, std::int64_t slot) {
  // The last sequence whose first slot is not behind `slot`; first slots ascend strictly.
  int low = 0;
  for (int high = sequences - 1; low < high;) {
    const int middle = (low + high + 1) / 2;
    if (offsets[middle] / kGatedDeltaChunk + middle <= slot) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const std::int64_t begin = offsets[low] + (slot - offsets[low] / kGatedDeltaChunk - low) * kGatedDeltaChunk;
  const std::int64_t rest = offsets[low + 1] - begin;
  return {begin, rest <= 0 ? 0 : rest < kGatedDeltaChunk ? static_cast<int>(rest) : kGatedDeltaChunk};
}

// Rows row .. row + count of x as fp32 in shared memory, zeros up to kWidth columns; all kThreads threads take part.
template <class T, int kThreads, int kWidth>
__device__ void stage_rows(float (&to)[kStaged][kWidth], const ConstHeadRows& x, std::int64_t row, int count, int head,
                           int first_column, int columns) {
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kStaged * kWidth; i += kThreads) {
    const int r = i / kWidth;
    const int column = first_column + i % kWidth;
    to[r][i % kWidth] = r < count && column < columns ? to_float(row_of<T>(x, row + r, head)[column]) : 0.0F;
  }
}

// Key of element i of a thread's part.
template <int kKeys>
__device__ int key_of(int part, int i) {
  return 4 * (part + kKeys / kPart * (i / 4)) + i % 4;
}

// A thread's part of a row of a [V, K] state; zeros from null.
template <int kKeys>
__device__ void load_part(float (&state)[kPart], const float* row, int key_size, int part) {
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int key = key_of<kKeys>(part, i);
    state[i] = row != nullptr && key < key_size ? row[key] : 0.0F;
  }
}
template <int kKeys>
__device__ void store_part(const float (&state)[kPart], float* row, int key_size, int part) {
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int key = key_of<kKeys>(part, i);
    if (key < key_size) {
      row[key] = state[i];
    }
  }
}

// Sum over the threads of a column.
template <int kKeys>
__device__ float sum_parts(float x) {
#pragma unroll
  for (int offset = 1; offset < kKeys / kPart; offset *= 2) {
    x += __shfl_xor_sync(0xffffffffU, x, offset);
  }
  return x;
}

// What the forward scan writes; null for what is not wanted.
struct ScanOutputs {
  HeadRows output;               // [N, H, V] of the element type
  float* final_state = nullptr;  // [S, H, V, K]
  float* states = nullptr;       // [slots, H, V, K] at the start of each chunk
  float* w = nullptr;            // [N, H, V] v_t - exp(g_t) S_{t-1}^T k_t
};

inline int column_tiles(const GatedDeltaShape& shape) { return (shape.value_size + kColumns - 1) / kColumns; }

cudaError_t launch_scan(const GatedDeltaInput& in, const ScanOutputs& out, cudaStream_t stream);

bool supports(const GatedDeltaInput& in, int shared_bytes);
std::size_t backward_scratch(const GatedDeltaInput& in);
cudaError_t launch_backward(const GatedDeltaBackward& params, cudaStream_t stream);

}  // namespace hydra::kernels::portable
