#pragma once
// Conversions between stored elements and fp32 arithmetic, packs of elements that move as one access, and the logistic
// function.

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/parameter.h"

namespace hydra::kernels {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Two bf16 values in 32 bits.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ float low_bf16(std::uint32_t x) { return __uint_as_float(x << 16); }
__device__ __forceinline__ float high_bf16(std::uint32_t x) { return __uint_as_float(x & 0xffff0000U); }

// kWidth consecutive elements, at an address that is a multiple of their size.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T value[kWidth];
};

__device__ inline float parameter_value(const Parameter& p, std::int64_t i) {
  return p.element == Element::fp32 ? static_cast<const float*>(p.data)[i]
                                    : to_float(static_cast<const __nv_bfloat16*>(p.data)[i]);
}

// Denormals are flushed, which saves their treatment around the instruction.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// To about 1e-6 relative; 0 and 1 far out, NaN for NaN.
__device__ __forceinline__ float fast_sigmoid(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0F + exp2_fast(-1.4426950408889634F * x)));
  return y;
}

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Of the current device; host only.
inline int multiprocessors() {
  int device = 0, count = 1;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    return 1;
  }
  return count;
}

}  // namespace hydra::kernels
