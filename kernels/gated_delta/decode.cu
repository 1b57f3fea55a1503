// The decode step: a few rows of each sequence by the recurrence of params.h, fp32, the state updated in place. A block
// takes one sequence, one head and 32 rows of the V-first state; 8 lanes share such a row, so that a warp reads four
// whole 128-byte lines at a time, and every load of the state is in flight before the first use. The state stays in
// registers over the rows of a step.
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/element.cuh"
#include "kernels/gated_delta/launch.h"

namespace hydra::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kLanes = 8;                 // threads a row of the state
constexpr int kPasses = 2;                // rows of the state a thread
constexpr int kStep = kThreads / kLanes;  // distance of these rows
constexpr int kValues = kStep * kPasses;  // rows of the state a block

// Elements first .. first + 3 of a row, zeros beyond `size`. kAligned: rows start at multiples of four elements.
template <bool kAligned>
__device__ float4 load4(const float* row, int first, int size) {
  if constexpr (kAligned) {
    return first < size ? *reinterpret_cast<const float4*>(row + first) : float4{};
  }
  const auto at = [&](int i) { return first + i < size ? row[first + i] : 0.0F; };
  return {at(0), at(1), at(2), at(3)};
}
template <bool kAligned>
__device__ float4 load4(const __nv_bfloat16* row, int first, int size) {
  if constexpr (kAligned) {
    if (first >= size) {
      return {};
    }
    const uint2 bits = *reinterpret_cast<const uint2*>(row + first);
    return {low_bf16(bits.x), high_bf16(bits.x), low_bf16(bits.y), high_bf16(bits.y)};
  }
  const auto at = [&](int i) { return first + i < size ? to_float(row[first + i]) : 0.0F; };
  return {at(0), at(1), at(2), at(3)};
}
template <bool kAligned>
__device__ void store4(float* row, int first, int size, const float4& x) {
  if constexpr (kAligned) {
    if (first < size) {
      *reinterpret_cast<float4*>(row + first) = x;
    }
  } else {
    const float values[4] = {x.x, x.y, x.z, x.w};
    for (int i = 0; i < 4; ++i) {
      if (first + i < size) {
        row[first + i] = values[i];
      }
    }
  }
}

__device__ float dot(const float4& a, const float4& b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

__device__ float sum_lanes(float x) {
#pragma unroll
  for (int offset = 1; offset < kLanes; offset *= 2) {
    x += __shfl_xor_sync(0xffffffffU, x, offset);
  }
  return x;
}

template <class T, int kKeys, bool kAligned>
__global__ void __launch_bounds__(kThreads) decode_kernel(const GatedDeltaDecode p) {
  constexpr int kVectors = kKeys / kLanes / 4;  // of 4 keys, a thread and row of the state
  const GatedDeltaShape& shape = p.in.shape;
  const int s = static_cast<int>(blockIdx.x) / shape.heads;
  const int head = static_cast<int>(blockIdx.x) % shape.heads;
  const int key_head = head / (shape.heads / shape.key_heads);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int first_value = static_cast<int>(blockIdx.y) * kValues + static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t begin = p.in.offsets[s];
  const std::int64_t end = p.in.offsets[s + 1];
  const std::int64_t entry = p.state_index != nullptr ? p.state_index[s] : s;
  if (entry < 0 || begin == end) {
    return;
  }
  const auto key_of = [lane](int m) { return 4 * (lane + kLanes * m); };

  float* const states = p.states + (entry * shape.heads + head) * shape.value_size * shape.key_size;
  float4 state[kPasses][kVectors];
#pragma unroll
  for (int i = 0; i < kPasses; ++i) {
    const int value = first_value + kStep * i;
#pragma unroll
    for (int m = 0; m < kVectors; ++m) {
      state[i][m] = value < shape.value_size
                        ? load4<kAligned>(states + std::int64_t{value} * shape.key_size, key_of(m), shape.key_size)
                        : float4{};
    }
  }
  for (std::int64_t row = begin; row < end; ++row) {
    const auto* k_row = static_cast<const T*>(p.in.k.data) + row * p.in.k.row_stride + key_head * p.in.k.head_stride;
    const auto* q_row = static_cast<const T*>(p.in.q.data) + row * p.in.q.row_stride + key_head * p.in.q.head_stride;
    const auto* v_row = static_cast<const T*>(p.in.v.data) + row * p.in.v.row_stride + head * p.in.v.head_stride;
    auto* o_row = static_cast<T*>(p.output.data) + row * p.output.row_stride + head * p.output.head_stride;
    float4 k[kVectors], q[kVectors];
#pragma unroll
    for (int m = 0; m < kVectors; ++m) {
      k[m] = load4<kAligned>(k_row, key_of(m), shape.key_size);
      q[m] = load4<kAligned>(q_row, key_of(m), shape.key_size);
    }
    float v[kPasses];
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int value = first_value + kStep * i;
      v[i] = value < shape.value_size ? to_float(v_row[value]) : 0.0F;
    }
    const float decay = expf(p.in.g[row * shape.heads + head]);
    const float beta = p.in.beta[row * shape.heads + head];
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      float seen = 0.0F;
#pragma unroll
      for (int m = 0; m < kVectors; ++m) {
        float4& x = state[i][m];
        x = {decay * x.x, decay * x.y, decay * x.z, decay * x.w};
        seen += dot(x, k[m]);
      }
      const float u = beta * (v[i] - sum_lanes(seen));
      float o = 0.0F;
#pragma unroll
      for (int m = 0; m < kVectors; ++m) {
        float4& x = state[i][m];
        x = {x.x + u * k[m].x, x.y + u * k[m].y, x.z + u * k[m].z, x.w + u * k[m].w};
        o += dot(x, q[m]);
      }
      o = p.in.scale * sum_lanes(o);
      const int value = first_value + kStep * i;
      if (lane == 0 && value < shape.value_size) {
        o_row[value] = from_float<T>(o);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPasses; ++i) {
    const int value = first_value + kStep * i;
    if (value < shape.value_size) {
#pragma unroll
      for (int m = 0; m < kVectors; ++m) {
        store4<kAligned>(states + std::int64_t{value} * shape.key_size, key_of(m), shape.key_size, state[i][m]);
      }
    }
  }
}

// Whether rows of q, k and the states start at multiples of four elements.
bool is_aligned(const GatedDeltaDecode& p) {
  const std::uintptr_t bytes = p.in.element == Element::bf16 ? 8 : 16;
  const auto rows_aligned = [bytes](const ConstHeadRows& x) {
    return reinterpret_cast<std::uintptr_t>(x.data) % bytes == 0 && x.row_stride % 4 == 0 && x.head_stride % 4 == 0;
  };
  return p.in.shape.key_size % 4 == 0 && reinterpret_cast<std::uintptr_t>(p.states) % 16 == 0 && rows_aligned(p.in.q) &&
         rows_aligned(p.in.k);
}

template <class T, bool kAligned>
cudaError_t launch(const GatedDeltaDecode& p, cudaStream_t stream) {
  const GatedDeltaShape& shape = p.in.shape;
  const dim3 grid(static_cast<unsigned>(shape.sequences) * static_cast<unsigned>(shape.heads),
                  static_cast<unsigned>((shape.value_size + kValues - 1) / kValues));
  if (shape.key_size <= 64) {
    decode_kernel<T, 64, kAligned><<<grid, kThreads, 0, stream>>>(p);
  } else if (shape.key_size <= 128) {
    decode_kernel<T, 128, kAligned><<<grid, kThreads, 0, stream>>>(p);
  } else {
    decode_kernel<T, 256, kAligned><<<grid, kThreads, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

template <class T>
cudaError_t launch(const GatedDeltaDecode& p, cudaStream_t stream) {
  return is_aligned(p) ? launch<T, true>(p, stream) : launch<T, false>(p, stream);
}

}  // namespace

cudaError_t launch_gated_delta_decode(const GatedDeltaDecode& p, cudaStream_t stream) {
  if (p.in.shape.sequences == 0 || p.in.shape.heads == 0) {
    return cudaSuccess;
  }
  return p.in.element == Element::bf16 ? launch<__nv_bfloat16>(p, stream) : launch<float>(p, stream);
}

}  // namespace hydra::kernels
