#pragma once
// (I + L)^-1 of a strictly lower triangular 64 x 64 matrix by one warpgroup: the 16 x 16 diagonal blocks by substitution
// in fp32, then blocks of 32 and 64 by X21 = -X22 (L21 X11) with fp16 operands and fp32 sums. For keys of length 1 the
// inverse's entries are bounded by beta, so fp16 holds them; bf16 would not be precise enough (kernels.md section 7).

#include "kernels/gated_delta/products.cuh"

namespace hydra::kernels {

constexpr int kInverseRow = 20;                                // floats a row of a diagonal block, 16-byte aligned
constexpr int kInverseScratchBytes = 4 * 16 * kInverseRow * 4;  // fp32 diagonal blocks, one a warp

// v_i -= L_ij v_j for rows i in [first, last) and the columns j, ..., j + 3 that lie below the diagonal.
template <int kRows>
__device__ __forceinline__ void substitute_rows(float (&v)[16], std::uint32_t block, int j, int first, int last) {
  float4 rows[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (first + r < last) {
      const auto at = block + static_cast<std::uint32_t>(((first + r) * kInverseRow + j) * 4);
      asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(rows[r].x), "=f"(rows[r].y), "=f"(rows[r].z), "=f"(rows[r].w)
                   : "r"(at)
                   : "memory");
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (first + r < last) {
      const float row[4] = {rows[r].x, rows[r].y, rows[r].z, rows[r].w};
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        if (j + m < first + r) {
          v[first + r] -= row[m] * v[j + m];
        }
      }
    }
  }
}

// Warp w holds rows 16w... of L in `l` (accumulator layout; entries on and above the diagonal are ignored). `x`: a tile
// that receives the inverse in fp16, on and below the 16 x 16 diagonal blocks; what is above them is scratch.
// Each warp may read its own rows after __syncwarp; others' need a barrier. Barriers barrier_id, barrier_id + 1 are used.
__device__ __forceinline__ void invert_unit_lower(const float (&l)[8][4], std::uint32_t x, std::uint32_t scratch,
                                                  int warp, int barrier_id) {
  const int lane = recomputed(static_cast<int>(threadIdx.x % 32));
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
  std::uint32_t packed[6][2];  // L in fp16: the products below need no more of it
#pragma unroll
  for (int n = 0; n < 6; ++n) {
    packed[n][0] = pack_fp16(l[n][0], l[n][1]);
    packed[n][1] = pack_fp16(l[n][2], l[n][3]);
  }
  __syncwarp();
  // Column `column` of the block's inverse: x_i = [i = column] - sum over j < i of L_ij x_j. Rows are read a batch ahead of
  // their use: one by one, the latency of shared memory would be most of this function's time.
  const int column = lane & 15;
  float v[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    v[i] = i == column ? 1.0F : 0.0F;
  }
#pragma unroll
  for (int j = 0; j < 16; j += 4) {
    substitute_rows<4>(v, block, j, j + 1, j + 4);
#pragma unroll
    for (int i = j + 4; i < 16; i += 6) {
      substitute_rows<6>(v, block, j, i, i + 6 < 16 ? i + 6 : 16);
    }
  }
  if (lane < 16) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const auto at = tile_address(x, warp * 16 + i, warp * 2 + (column >> 3)) + static_cast<std::uint32_t>((column & 7) * 2);
      asm volatile("st.shared.b16 [%0], %1;" ::"r"(at), "h"(__half_as_ushort(__float2half_rn(v[i]))) : "memory");
    }
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
