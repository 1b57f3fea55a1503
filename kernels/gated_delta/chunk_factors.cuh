#pragma once
// R = Gamma strict_lower((I + L)^-1) of a chunk from the inverse that the forward pass saved, by one warpgroup whose
// warp w makes rows 16w... of the tile. Only the 16 x 16 blocks on and below the diagonal are read and written.

#include "kernels/gated_delta/scan_common.cuh"

namespace hydra::kernels {

// What one thread turns into R; read ahead of its use.
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
__device__ __forceinline__ void form_r(const SavedInverse& inverse, std::uint32_t r_tile, std::uint32_t gates,
                                       int warp) {
  const int row = warp * 16 + static_cast<int>(threadIdx.x % 32 / 4);
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
