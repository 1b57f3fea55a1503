#pragma once
// The PTX instructions of the tensor-core kernels that exist since sm_80: matrix loads, mma.sync, asynchronous copies,
// barriers. Fragment layouts are those of mma.m16n8k16: with g = lane / 4 and t = lane % 4 an accumulator block holds
// rows g and g + 8, columns 2t and 2t + 1; packed to 16 bits, two blocks side by side are an A operand.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/element.cuh"

namespace hydra::kernels {

// x, but unknown to the compiler: what is derived from it in a loop is computed there instead of kept in registers.
__device__ __forceinline__ int recomputed(int x) {
  int y;
  asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Four 8x8 matrices of 16-bit elements; lane l supplies the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
// One matrix; lanes 0-7 supply the rows' addresses.
__device__ __forceinline__ std::uint32_t load_matrix(std::uint32_t address) {
  std::uint32_t r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(address) : "memory");
  return r;
}
__device__ __forceinline__ std::uint32_t load_matrix_transposed(std::uint32_t address) {
  std::uint32_t r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(address) : "memory");
  return r;
}
// The transpose of an 8x8 matrix held one 32-bit register a lane.
__device__ __forceinline__ std::uint32_t transpose_matrix(std::uint32_t x) {
  std::uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

__device__ __forceinline__ void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_fp16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// d[2], d[3] += A B for 8x8 matrices (rows 8-15 of an m16n8k8 product whose rows 0-7 are zero).
__device__ __forceinline__ void mma_fp16_lower(float (&d)[4], std::uint32_t a, std::uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(0), "r"(a), "r"(b));
}

__device__ __forceinline__ std::uint32_t pack_fp16(float low, float high) {
  std::uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ std::uint32_t add_bf16(std::uint32_t x, std::uint32_t y) {
  const auto sum = __hadd2(*reinterpret_cast<const __nv_bfloat162*>(&x), *reinterpret_cast<const __nv_bfloat162*>(&y));
  return *reinterpret_cast<const std::uint32_t*>(&sum);
}
__device__ __forceinline__ float2 unpack_fp16(std::uint32_t x) {
  return __half22float2(*reinterpret_cast<const __half2*>(&x));
}

__device__ __forceinline__ void store_shared(std::uint32_t address, std::uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}
__device__ __forceinline__ std::uint32_t load_shared(std::uint32_t address) {
  std::uint32_t x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}
__device__ __forceinline__ uint4 load_shared_16(std::uint32_t address) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address)
               : "memory");
  return x;
}
__device__ __forceinline__ float load_shared_float(std::uint32_t address) {
  return __uint_as_float(load_shared(address));
}
__device__ __forceinline__ float2 load_shared_float2(std::uint32_t address) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address) : "memory");
  return x;
}

// Stores four 8x8 matrices (sm_90); lane l supplies the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(std::uint32_t address, const std::uint32_t (&r)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
#endif
}

// 16 bytes from global to shared memory; zeros instead where `valid` is false.
__device__ __forceinline__ void copy_async_16(std::uint32_t to, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// mbarriers. The phase of a wait alternates 0, 1, 0, ... from the barrier's initialisation on.
__device__ __forceinline__ void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}" ::"r"(barrier) : "memory");
}
// Arrives when the thread's earlier asynchronous copies have landed; counts as one of the expected arrivals.
__device__ __forceinline__ void barrier_arrive_after_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, std::uint32_t phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
#if __CUDA_ARCH__ >= 900
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
#else
      "mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
#endif
      "@!done bra WAIT;\n"
      "}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}
// A barrier among `threads` threads of the block (a multiple of 32); id 1..15, 0 is __syncthreads'.
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace hydra::kernels
