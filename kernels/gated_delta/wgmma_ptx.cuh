#pragma once
// wgmma (sm_90a): a warpgroup's product with A in registers and B in a 128-byte-swizzled tile of shared memory.

#include <cstdint>

#include "kernels/gated_delta/mma_ptx.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HYDRA_WGMMA 1
#else
#define HYDRA_WGMMA 0
#endif

namespace hydra::kernels {

// Descriptor of a tile of 128-byte rows in the 128-byte swizzle (PTX ISA, "matrix descriptor"): start address, stride
// between groups of 8 rows (1024 bytes) and, for operands whose N is contiguous, between blocks of 64 columns.
__device__ __forceinline__ std::uint64_t tile_descriptor(std::uint32_t address, std::uint32_t column_block_stride) {
  return (std::uint64_t{1} << 62) | (std::uint64_t{1024 >> 4} << 32) |
         (static_cast<std::uint64_t>(column_block_stride >> 4) << 16) | ((address & 0x3ffff) >> 4);
}

__device__ __forceinline__ void wgmma_fence() {
#if HYDRA_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wgmma_commit() {
#if HYDRA_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
#if HYDRA_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}
// Makes earlier writes of this thread to shared memory visible to wgmma.
__device__ __forceinline__ void fence_for_wgmma() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Moves registers between the warpgroups of a block (multiples of 8).
template <int kRegisters>
__device__ __forceinline__ void set_registers_up() {
#if HYDRA_WGMMA
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void set_registers_down() {
#if HYDRA_WGMMA
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// acc [64, 8 kBlocks] += A [64, 16] B [16, 8 kBlocks], blocks kFirst... of acc; kFresh: = instead of +=. kRowsAreK: the
// tile's rows are B's K (its N is contiguous), else its N.
#define HYDRA_D(i) \
  "+f"(acc[kFirst + i][0]), "+f"(acc[kFirst + i][1]), "+f"(acc[kFirst + i][2]), "+f"(acc[kFirst + i][3])
template <int kBlocks, int kFirst, bool kRowsAreK, bool kFresh, int kAll>
__device__ __forceinline__ void wgmma_bf16(float (&acc)[kAll][4], const std::uint32_t (&a)[4], std::uint64_t b) {
#if HYDRA_WGMMA
  static_assert(kFirst + kBlocks <= kAll);
  constexpr int kTransposed = kRowsAreK ? 1 : 0;
  constexpr int kAccumulate = kFresh ? 0 : 1;
  if constexpr (kBlocks == 2) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %14, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7"
        "}, {%8,%9,%10,%11}, %12, p, 1, 1, %13;}"
        : HYDRA_D(0), HYDRA_D(1)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransposed), "n"(kAccumulate));
  } else if constexpr (kBlocks == 4) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %22, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
        "}, {%16,%17,%18,%19}, %20, p, 1, 1, %21;}"
        : HYDRA_D(0), HYDRA_D(1), HYDRA_D(2), HYDRA_D(3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransposed), "n"(kAccumulate));
  } else if constexpr (kBlocks == 6) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %30, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23"
        "}, {%24,%25,%26,%27}, %28, p, 1, 1, %29;}"
        : HYDRA_D(0), HYDRA_D(1), HYDRA_D(2), HYDRA_D(3), HYDRA_D(4), HYDRA_D(5)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransposed), "n"(kAccumulate));
  } else if constexpr (kBlocks == 8) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %38, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31"
        "}, {%32,%33,%34,%35}, %36, p, 1, 1, %37;}"
        : HYDRA_D(0), HYDRA_D(1), HYDRA_D(2), HYDRA_D(3), HYDRA_D(4), HYDRA_D(5), HYDRA_D(6), HYDRA_D(7)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransposed), "n"(kAccumulate));
  } else {
    static_assert(kBlocks == 16);
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %70, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,"
        "%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, {%64,%65,%66,%67}, %68, p, 1, 1, %69;}"
        : HYDRA_D(0), HYDRA_D(1), HYDRA_D(2), HYDRA_D(3), HYDRA_D(4), HYDRA_D(5), HYDRA_D(6), HYDRA_D(7), HYDRA_D(8),
          HYDRA_D(9), HYDRA_D(10), HYDRA_D(11), HYDRA_D(12), HYDRA_D(13), HYDRA_D(14), HYDRA_D(15)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransposed), "n"(kAccumulate));
  }
#endif
}

// The same with A a tile whose rows are M.
template <int kBlocks, int kFirst, bool kRowsAreK, bool kFresh, int kAll>
__device__ __forceinline__ void wgmma_bf16_tiles(float (&acc)[kAll][4], std::uint64_t a, std::uint64_t b) {
#if HYDRA_WGMMA
  static_assert(kFirst + kBlocks <= kAll);
  constexpr int kTransposed = kRowsAreK ? 1 : 0;
  constexpr int kAccumulate = kFresh ? 0 : 1;
  if constexpr (kBlocks == 8) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %35, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31"
        "}, %32, %33, p, 1, 1, 0, %34;}"
        : HYDRA_D(0), HYDRA_D(1), HYDRA_D(2), HYDRA_D(3), HYDRA_D(4), HYDRA_D(5), HYDRA_D(6), HYDRA_D(7)
        : "l"(a), "l"(b), "n"(kTransposed), "n"(kAccumulate));
  } else {
    static_assert(kBlocks == 16);
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %67, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,"
        "%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, %64, %65, p, 1, 1, 0, %66;}"
        : HYDRA_D(0), HYDRA_D(1), HYDRA_D(2), HYDRA_D(3), HYDRA_D(4), HYDRA_D(5), HYDRA_D(6), HYDRA_D(7), HYDRA_D(8),
          HYDRA_D(9), HYDRA_D(10), HYDRA_D(11), HYDRA_D(12), HYDRA_D(13), HYDRA_D(14), HYDRA_D(15)
        : "l"(a), "l"(b), "n"(kTransposed), "n"(kAccumulate));
  }
#endif
}
#undef HYDRA_D

}  // namespace hydra::kernels
