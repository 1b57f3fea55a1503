#pragma once
// The triangular factors of a chunk, each by one warpgroup whose warp w makes rows 16w... of a 64 x 64 tile:
//   P = scale Gamma lower(Q K^T)      R = Gamma strict_lower((I + L)^-1),  L = strict_lower(beta_i k_i.k_j)
// Only the 16 x 16 blocks on and below the diagonal are written; the tiles start out as zeros. `wait_for_slot` returns
// when the tile may be overwritten.

#include "kernels/gated_delta/chunk_inverse.cuh"
#include "kernels/gated_delta/scan_common.cuh"

namespace hydra::kernels {

template <bool kWgmma, int kSize, class Wait>
__device__ __forceinline__ void form_p(std::uint32_t q_tile, std::uint32_t k_tile, std::uint32_t p_tile,
                                       std::uint32_t gates, float scale, int warp, const Wait& wait_for_slot) {
  const int row = recomputed(warp * 16 + static_cast<int>(threadIdx.x % 32 / 4));
  float qk[8][4];
  begin_products<kWgmma>();
  multiply_tiles<kWgmma, 8, false, kSize / 16, true>(qk, q_tile, k_tile, warp);
  end_products<kWgmma>();
  const auto totals = row_totals(gates, row);
  wait_for_slot();
  wait_products<kWgmma, 0>();
  pin(qk);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    if (n / 2 <= warp) {
      store_lower<false>(p_tile, row, n, decays(gates, totals, n),
                         {{scale * qk[n][0], scale * qk[n][1], scale * qk[n][2], scale * qk[n][3]}});
    }
  }
}

// R from the keys. `x_tile` receives the inverse in fp16; `saved` (null: none) all 64 x 64 of it in bf16.
template <bool kWgmma, int kSize, class Wait>
__device__ __forceinline__ void form_r(std::uint32_t k_tile, std::uint32_t x_tile, std::uint32_t scratch,
                                       std::uint32_t r_tile, std::uint32_t gates, std::uint32_t* saved, int warp,
                                       int barrier_id, const Wait& wait_for_slot) {
  const int row = recomputed(warp * 16 + static_cast<int>(threadIdx.x % 32 / 4));
  const auto t = threadIdx.x % 4;
  {
    float l[8][4];
    begin_products<kWgmma>();
    multiply_tiles<kWgmma, 8, false, kSize / 16, true>(l, k_tile, k_tile, warp);
    end_products<kWgmma>();
    const auto beta = gates + static_cast<std::uint32_t>(offsetof(ChunkGates, beta)) + static_cast<std::uint32_t>(row * 4);
    const float beta_low = load_shared_float(beta);
    const float beta_high = load_shared_float(beta + 32);
    wait_products<kWgmma, 0>();
    pin(l);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      l[n][0] *= beta_low;
      l[n][1] *= beta_low;
      l[n][2] *= beta_high;
      l[n][3] *= beta_high;
    }
    invert_unit_lower(l, x_tile, scratch, warp, barrier_id);
  }
  const auto totals = row_totals(gates, row);
  __syncwarp();
  wait_for_slot();
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    float2 low{};
    float2 high{};
    if (n / 2 <= warp) {
      low = unpack_fp16(load_shared(tile_address(x_tile, row, n) + 4 * t));
      high = unpack_fp16(load_shared(tile_address(x_tile, row + 8, n) + 4 * t));
      store_lower<true>(r_tile, row, n, decays(gates, totals, n), {{low.x, low.y, high.x, high.y}});
    }
    if (saved != nullptr) {
      saved[row * 32 + n * 4 + static_cast<int>(t)] = pack_bf16(low.x, low.y);
      saved[(row + 8) * 32 + n * 4 + static_cast<int>(t)] = pack_bf16(high.x, high.y);
    }
  }
}

// R from the inverse that an earlier pass saved, read one chunk ahead of its use.
struct SavedInverse {
  std::uint32_t x[8][2];
};
__device__ __forceinline__ void read_inverse(SavedInverse& inverse, const void* from, int warp) {
  const auto* at = static_cast<const std::uint32_t*>(from) + (warp * 16 + static_cast<int>(threadIdx.x % 32 / 4)) * 32 +
                   static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    if (n / 2 <= warp) {
      inverse.x[n][0] = __ldg(at + n * 4);
      inverse.x[n][1] = __ldg(at + n * 4 + 8 * 32);
    }
  }
}
__device__ __forceinline__ void form_r(const SavedInverse& inverse, std::uint32_t r_tile, std::uint32_t gates, int warp) {
  const int row = recomputed(warp * 16 + static_cast<int>(threadIdx.x % 32 / 4));
  const auto totals = row_totals(gates, row);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    if (n / 2 <= warp) {
      const auto& x = inverse.x[n];
      store_lower<true>(r_tile, row, n, decays(gates, totals, n),
                        {{low_bf16(x[0]), high_bf16(x[0]), low_bf16(x[1]), high_bf16(x[1])}});
    }
  }
}

}  // namespace hydra::kernels
