#pragma once
// (I + L)^-1 of a strictly lower triangular 64 x 64 matrix by one warpgroup: the 8 x 8 diagonal blocks by substitution
// in fp32, then blocks of 16, 32 and 64 by X21 = -X22 (L21 X11) with fp16 operands and fp32 sums. For keys of length 1
// the inverse's entries are bounded by beta, so fp16 holds them; bf16 would not be precise enough (kernels.md section
// 7).

#include "kernels/gated_delta/products.cuh"

namespace hydra::kernels {

constexpr int kInverseRow = 20;                                 // floats a row of a diagonal block, 16-byte aligned
constexpr int kInverseScratchBytes = 4 * 16 * kInverseRow * 4;  // fp32 diagonal blocks, one a warp

// Columns of the inverses of the two 8 x 8 blocks on the diagonal of a 16 x 16 block, by lanes 0-7 and 8-15 (the others
// repeat them): x_i = [i = column] - sum over j < i of L_ij x_j. All rows are read before they are used: one by one,
// the latency of shared memory would be most of the time.
__device__ __forceinline__ void substitute(float (&v)[8], std::uint32_t block, int lane) {
  const int half = (lane >> 3) & 1;
  const auto first = block + static_cast<std::uint32_t>(half * (8 * kInverseRow + 8) * 4);
  float4 left[7];   // columns 0-3 of rows 1-7
  float4 right[3];  // columns 4-7 of rows 5-7
#pragma unroll
  for (int r = 1; r < 8; ++r) {
    const auto four = load_shared_16(first + static_cast<std::uint32_t>(r * kInverseRow * 4));
    left[r - 1] = {__uint_as_float(four.x), __uint_as_float(four.y), __uint_as_float(four.z), __uint_as_float(four.w)};
  }
#pragma unroll
  for (int r = 5; r < 8; ++r) {
    const auto four = load_shared_16(first + static_cast<std::uint32_t>((r * kInverseRow + 4) * 4));
    right[r - 5] = {__uint_as_float(four.x), __uint_as_float(four.y), __uint_as_float(four.z), __uint_as_float(four.w)};
  }
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    v[r] = r == (lane & 7) ? 1.0F : 0.0F;
  }
#pragma unroll
  for (int j = 0; j < 7; ++j) {
#pragma unroll
    for (int r = j + 1; r < 8; ++r) {
      const float4& row = j < 4 ? left[r - 1] : right[r - 5];
      const float l = (j & 3) == 0 ? row.x : (j & 3) == 1 ? row.y : (j & 3) == 2 ? row.z : row.w;
      v[r] -= l * v[j];
    }
  }
}

// Warp w holds rows 16w... of L in `l` (accumulator layout; entries on and above the diagonal are ignored). `x`: a tile
// that receives the inverse in fp16, on and below the 16 x 16 diagonal blocks; what is above them is scratch.
// Each warp may read its own rows after __syncwarp; others' need a barrier. Barriers barrier_id, barrier_id + 1 are
// used.
__device__ __forceinline__ void invert_unit_lower(const float (&l)[8][4], std::uint32_t x, std::uint32_t scratch,
                                                  int warp, int barrier_id) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int g = lane >> 2;
  const int t = lane & 3;
  named_barrier(barrier_id, 128);  // nobody reads the previous inverse any more

  const auto block = scratch + static_cast<std::uint32_t>(warp * 16 * kInverseRow * 4);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    if (n / 2 == warp) {
      const auto at = block + static_cast<std::uint32_t>((g * kInverseRow + (n & 1) * 8 + 2 * t) * 4);
      asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(at), "f"(l[n][0]), "f"(l[n][1]) : "memory");
      asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(at + 8 * kInverseRow * 4), "f"(l[n][2]), "f"(l[n][3])
                   : "memory");
    }
  }
  std::uint32_t packed[8][2];  // L in fp16: the products need no more of it
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    packed[n][0] = pack_fp16(l[n][0], l[n][1]);
    packed[n][1] = pack_fp16(l[n][2], l[n][3]);
  }
  __syncwarp();
  {
    float v[8];
    substitute(v, block, lane);
    const int half = lane >> 3;
    if (lane < 16) {
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        const auto at =
            tile_address(x, warp * 16 + half * 8 + r, warp * 2 + half) + static_cast<std::uint32_t>((lane & 7) * 2);
        asm volatile("st.shared.b16 [%0], %1;" ::"r"(at), "h"(__half_as_ushort(__float2half_rn(v[r]))) : "memory");
      }
    } else if (lane < 24) {  // above the diagonal
      asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};" ::"r"(tile_address(x, warp * 16 + (lane & 7), warp * 2 + 1)),
                   "r"(0)
                   : "memory");
    }
    __syncwarp();
    // The lower left 8 x 8 block, -X22 (L21 X11), in the lower 8 rows of an m16n8k8 product.
    std::uint32_t l21 = 0;
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      l21 = n == 2 * warp ? packed[n][1] : l21;
    }
    float y[4] = {};
    mma_fp16_lower(y, l21, load_matrix_transposed(tile_address(x, warp * 16 + (lane & 7), warp * 2)));
    const auto x22 = load_matrix(tile_address(x, warp * 16 + 8 + (lane & 7), warp * 2 + 1));
    float z[4] = {};
    mma_fp16_lower(z, x22, transpose_matrix(pack_fp16(y[2], y[3])));
    store_shared(tile_address(x, warp * 16 + 8 + g, warp * 2) + static_cast<std::uint32_t>(4 * t),
                 pack_fp16(-z[2], -z[3]));
  }
  named_barrier(barrier_id, 128);

  const auto operand_of = [&](std::uint32_t(&a)[4], int n) {  // columns 8n... of L, 16 of them
    a[0] = packed[n][0];
    a[1] = packed[n][1];
    a[2] = packed[n + 1][0];
    a[3] = packed[n + 1][1];
  };
  // d[0..1] += A X[rows 16 k..., columns 16 n...] for 16 columns
  const auto times_block = [&](float(&d0)[4], float(&d1)[4], const std::uint32_t(&a)[4], int row, int piece) {
    std::uint32_t b[4];
    load_matrices_transposed(b, tile_address(x, row + (lane & 15), piece + (lane >> 4)));
    mma_fp16(d0, a, b[0], b[1]);
    mma_fp16(d1, a, b[2], b[3]);
  };
  // d += A Y for Y [16, 8] in accumulator layout
  const auto times_result = [&](float(&d)[4], const std::uint32_t(&a)[4], const float(&y)[4]) {
    mma_fp16(d, a, transpose_matrix(pack_fp16(y[0], y[1])), transpose_matrix(pack_fp16(y[2], y[3])));
  };
  const auto store_negative = [&](const float(&d)[4], int piece) {
    const auto offset = static_cast<std::uint32_t>(4 * t);
    store_shared(tile_address(x, warp * 16 + g, piece) + offset, pack_fp16(-d[0], -d[1]));
    store_shared(tile_address(x, warp * 16 + g + 8, piece) + offset, pack_fp16(-d[2], -d[3]));
  };

  if (warp & 1) {  // X10 = -X11 (L10 X00) of the warp's block of 32
    std::uint32_t a[4];
    if (warp == 1) {
      operand_of(a, 0);
    } else {
      operand_of(a, 4);
    }
    float y[2][4] = {};
    times_block(y[0], y[1], a, (warp - 1) * 16, (warp - 1) * 2);
    load_operand(a, x, warp, warp);
    float z[2][4] = {};
    times_result(z[0], a, y[0]);
    times_result(z[1], a, y[1]);
    store_negative(z[0], (warp - 1) * 2);
    store_negative(z[1], (warp - 1) * 2 + 1);
  }
  named_barrier(barrier_id, 128);

  if (warp >= 2) {  // the lower left block of 32: -X22 (L21 X11)
    std::uint32_t a0[4];
    std::uint32_t a1[4];
    operand_of(a0, 0);
    operand_of(a1, 2);
    float y[4][4] = {};
    times_block(y[0], y[1], a0, 0, 0);
    times_block(y[0], y[1], a1, 16, 0);
    times_block(y[2], y[3], a1, 16, 2);
    if (warp == 2) {  // warp 3 needs these rows: they go through the unused upper right
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const auto offset = static_cast<std::uint32_t>(4 * t);
        store_shared(tile_address(x, g, 4 + n) + offset, pack_fp16(y[n][0], y[n][1]));
        store_shared(tile_address(x, g + 8, 4 + n) + offset, pack_fp16(y[n][2], y[n][3]));
      }
    }
    named_barrier(barrier_id + 1, 64);
    float z[4][4] = {};
    if (warp == 3) {
      load_operand(a0, x, 3, 2);
      times_block(z[0], z[1], a0, 0, 4);
      times_block(z[2], z[3], a0, 0, 6);
    }
    load_operand(a1, x, warp, warp);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      times_result(z[n], a1, y[n]);
      store_negative(z[n], n);
    }
  }
}

}  // namespace hydra::kernels
