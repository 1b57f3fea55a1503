#pragma once
// How the head-wise kernels spread rows of d elements over lanes, and which rows a group of lanes visits. A lane holds
// 2 kHalf elements of a row as x[i]; x[i] and x[kHalf + i] are the same place of the row's first and second half, the
// pairs that RoPE rotates. Arithmetic is fp32.

#include <algorithm>
#include <type_traits>

#include "kernels/element.cuh"
#include "kernels/head_rows.h"

namespace hydra::kernels {

constexpr int kHeadRowThreads = 256;

__device__ inline void unpack(std::uint32_t a, std::uint32_t b, float* x, float) {
  x[0] = __uint_as_float(a);
  x[1] = __uint_as_float(b);
}
__device__ inline void unpack(std::uint32_t a, std::uint32_t b, float* x, __nv_bfloat16) {
  x[0] = low_bf16(a);
  x[1] = high_bf16(a);
  x[2] = low_bf16(b);
  x[3] = high_bf16(b);
}

__device__ inline uint4 pack(const float* x, float) {
  return {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])};
}
__device__ inline uint4 pack(const float* x, __nv_bfloat16) {
  return {pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7])};
}

// In PTX, because the compiler may split a plain store into scalar ones, each strided over the lanes: several times the
// transactions.
__device__ inline void store16(void* global, uint4 x) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}

__device__ inline void copy_async(uint4* shared, const void* global) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
      "l"(global)
      : "memory");
}

// d = 16 lanes: 16 elements a lane, by 16-byte accesses.
template <class T, int lanes>
struct VectorRow {
  using Value = T;
  static constexpr int kLanes = lanes;
  static constexpr int kHalf = 8;

  __device__ static bool holds(int, int, int) { return true; }
  __device__ static int column(int i, int lane, int) {
    return (i < kHalf ? 0 : kHalf * lanes) + kHalf * lane + i % kHalf;
  }
  __device__ static void store(T* row, int lane, int d, const float (&x)[2 * kHalf]) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      store16(row + column(i * kWidth, lane, d), pack(x + i * kWidth, T()));
    }
  }
  // A lane's places of a table of d / 2 values.
  __device__ static void load_half(const float* table, int lane, int, float (&x)[kHalf]) {
#pragma unroll
    for (int i = 0; i < kHalf; i += 4) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(table + kHalf * lane + i));
      x[i] = four.x;
      x[i + 1] = four.y;
      x[i + 2] = four.z;
      x[i + 3] = four.w;
    }
  }

 private:
  static constexpr int kWidth = 16 / sizeof(T);

 public:
  static constexpr int kPieces = 2 * kHalf / kWidth;

  // Rows on their way from memory, at most `depth` of them. Each lane copies its own pieces to its own places in shared
  // memory, so that they take no registers and no lane waits for another.
  template <int depth>
  class Queue {
   public:
    using Shared = uint4[depth][kPieces][kHeadRowThreads];

    __device__ explicit Queue(Shared& shared) : piece_(shared) {}
    __device__ void push(int slot, const T* row, int lane, int d) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        copy_async(&piece_[slot][i][threadIdx.x], row + column(i * kWidth, lane, d));
      }
    }
    __device__ void values(int slot, float (&x)[2 * kHalf]) const {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const uint4 raw = piece_[slot][i][threadIdx.x];
        unpack(raw.x, raw.y, x + i * kWidth, T());
        unpack(raw.z, raw.w, x + i * kWidth + kWidth / 2, T());
      }
    }

   private:
    Shared& piece_;
  };
};

// Any even d <= 256: one warp a row, element by element.
template <class T>
struct ScalarRow {
  using Value = T;
  static constexpr int kLanes = 32;
  static constexpr int kHalf = 4;

  __device__ static bool holds(int i, int lane, int d) { return lane + kLanes * (i % kHalf) < d / 2; }
  __device__ static int column(int i, int lane, int d) { return (i < kHalf ? 0 : d / 2) + lane + kLanes * (i % kHalf); }
  __device__ static void store(T* row, int lane, int d, const float (&x)[2 * kHalf]) {
#pragma unroll
    for (int i = 0; i < 2 * kHalf; ++i) {
      if (holds(i, lane, d)) {
        row[column(i, lane, d)] = from_float<T>(x[i]);
      }
    }
  }
  __device__ static void load_half(const float* table, int lane, int d, float (&x)[kHalf]) {
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      x[i] = holds(i, lane, d) ? table[lane + kLanes * i] : 0.0F;
    }
  }

  // One row ahead, in registers.
  template <int>
  class Queue {
   public:
    struct Shared {};

    __device__ explicit Queue(Shared&) {}
    __device__ void push(int, const T* row, int lane, int d) {
#pragma unroll
      for (int i = 0; i < 2 * kHalf; ++i) {
        ahead_[i] = holds(i, lane, d) ? row[column(i, lane, d)] : from_float<T>(0.0F);
      }
    }
    __device__ void values(int, float (&x)[2 * kHalf]) const {
#pragma unroll
      for (int i = 0; i < 2 * kHalf; ++i) {
        x[i] = to_float(ahead_[i]);
      }
    }

   private:
    T ahead_[2 * kHalf] = {};
  };
};

template <class Row, int depth>
constexpr int kQueueDepth = std::is_same_v<Row, ScalarRow<typename Row::Value>> ? 1 : depth;

// Closes what was pushed since the last call; one group of copies a row.
__device__ inline void commit_rows() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `ahead` groups are on their way.
template <int ahead>
__device__ void wait_rows() {
  asm volatile("cp.async.wait_group %0;" ::"n"(ahead) : "memory");
}

// The sum over the lanes of a row, in each of them; all lanes of the warp must call.
template <int kLanes>
__device__ float row_sum(float x) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(0xffffffffU, x, offset);
  }
  return x;
}

// The rows (token, head) that a group of lanes visits: always the same head, every `stride`-th token from `token` on,
// `visits` times. All lanes of a warp make the same number of steps, some of them past their last visit. Groups beyond
// a whole number of heads idle.
struct RowWalk {
  int group;  // in the grid
  int lane;   // in the group
  int head;
  int token, stride;
  int visits, steps;
  bool member;  // false: beyond the last whole set of heads

  // Of the first row in an array where the head is `packed`.
  __device__ std::int64_t offset(const ConstHeadRows& x, int packed) const {
    return token * x.row_stride + packed * x.head_stride;
  }
  // To the next visit; row strides fit 32 bits.
  __device__ std::int64_t step(const ConstHeadRows& x) const {
    return std::int64_t{stride} * static_cast<int>(x.row_stride);
  }
};

template <int kLanes>
__device__ RowWalk row_walk(int block, int blocks, int heads, std::int64_t rows) {
  constexpr int groups = kHeadRowThreads / kLanes;
  const auto visits = [=](int group, int stride) {
    const std::int64_t left = rows - group / heads;
    return group < stride * heads && left > 0 ? static_cast<int>((left + stride - 1) / stride) : 0;
  };
  const int thread = static_cast<int>(threadIdx.x);
  RowWalk walk;
  walk.group = block * groups + thread / kLanes;
  walk.lane = thread % kLanes;
  walk.head = walk.group % heads;
  walk.token = walk.group / heads;
  walk.stride = blocks * groups / heads;
  walk.member = walk.group < walk.stride * heads;
  walk.visits = visits(walk.group, walk.stride);
  walk.steps = visits(block * groups + thread / 32 * (32 / kLanes), walk.stride);  // of the warp's first group
  return walk;
}

// Blocks for rows x heads groups of `lanes` lanes: at most `most`, at least one group a head. Host.
inline int head_row_blocks(std::int64_t rows, int heads, int lanes, int most) {
  const std::int64_t groups = kHeadRowThreads / lanes;
  const std::int64_t wanted = std::min<std::int64_t>(ceil_div(rows * heads, groups), most);
  return static_cast<int>(std::max(wanted, ceil_div(heads, groups)));
}

inline bool aligned16(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

inline bool aligned16(const ConstHeadRows& x, Element element) {
  const std::int64_t width = element == Element::fp32 ? 4 : 8;
  return aligned16(x.data) && x.row_stride % width == 0 && x.head_stride % width == 0;
}

// Calls f with the row layout for head size d; the vector layouts need addresses and strides of 16 bytes. Host.
template <class T, class F>
auto with_row_layout(int d, bool aligned, F&& f) {
  if (aligned && d == 128) {
    return f(VectorRow<T, 8>());
  }
  if (aligned && d == 64) {
    return f(VectorRow<T, 4>());
  }
  return f(ScalarRow<T>());
}

}  // namespace hydra::kernels
