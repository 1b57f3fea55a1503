#pragma once
// A state warpgroup of the forward scan: keeps 64 rows of S^T and does every product with them.

#include "kernels/gated_delta/scan_forward_layout.cuh"

namespace hydra::kernels {

// acc[n] holds columns 8n + 2t, 8n + 2t + 1 of rows g and g + 8; calls f(n, gate of the first, of the second) for the
// gates at `field`.
template <class F>
__device__ __forceinline__ void for_each_gate(std::uint32_t gates, std::size_t field, const F& f) {
  const auto at = gates + static_cast<std::uint32_t>(field) + 8 * (threadIdx.x % 4);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    f(n, load_shared_float2(at + static_cast<std::uint32_t>(n * 32)));
  }
}

// acc (+)= A B^T for columns 64 part... of A and B; the first part sets acc.
template <bool kWgmma>
__device__ __forceinline__ void multiply_columns(float (&acc)[8][4], const std::uint32_t (&a)[4][4], std::uint32_t b,
                                                 int part) {
  const auto tile = b + static_cast<std::uint32_t>(part * kTileBytes);
  if (part == 0) {
    multiply<kWgmma, 8, 0, false, true>(acc, a[0], tile, 0);
  } else {
    multiply<kWgmma, 8, 0, false, false>(acc, a[0], tile, 0);
  }
#pragma unroll
  for (int step = 1; step < 4; ++step) {
    multiply<kWgmma, 8, 0, false, false>(acc, a[step], tile, step);
  }
}

template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__device__ __forceinline__ void scan_states(const ScanForwardParams& p,
                                            const ScanForwardParts<kSize, kGroups, kWgmma, kMode>& parts, int group,
                                            bool from_unit) {
  using Shared = ScanForwardShared<kSize, kGroups, kWgmma, kMode>;
  constexpr int kStages = Shared::kStages;
  constexpr bool kHasOutput = Shared::kHasOutput;
  const auto barriers = parts.barriers();
  const int warp = static_cast<int>(threadIdx.x / 32 % 4);
  float s[kSize / 8][4];
  if (from_unit) {
    unit_rows<kSize>(s, static_cast<int>(blockIdx.y) % (kSize / 64 / kGroups) * kGroups * 64 + group * 64 + warp * 16);
  } else {
    const auto* start = reinterpret_cast<const float*>(load_shared_pointer(parts.place(offsetof(BlockPlace, start))));
    read_state<kSize>(s, start == nullptr ? nullptr : start + group * 64 * kSize, warp);
  }
  const int chunks = static_cast<int>(load_shared(parts.place(offsetof(BlockPlace, chunks))));
#pragma unroll 1
  for (int i = 0; i < chunks; ++i) {
    const int stage = i % kStages;
    const int slot = i & 1;
    const auto gates = parts.gates(stage);
    barrier_wait(barriers.full(stage), static_cast<std::uint32_t>(i / kStages) & 1U);
    float w[8][4];
    float o[8][4];
    // S^T K^T and S^T Q^T by 64 columns of S^T: operands of all of them would not fit beside the accumulators.
#pragma unroll
    for (int part = 0; part < kSize / 64; ++part) {
      std::uint32_t operand[4][4];
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        pack_operand(operand[step], s[part * 8 + 2 * step], s[part * 8 + 2 * step + 1]);
      }
      pin(operand);
      begin_products<kWgmma>();
      multiply_columns<kWgmma>(w, operand, parts.k(stage), part);
      if constexpr (kHasOutput) {
        multiply_columns<kWgmma>(o, operand, parts.q(stage), part);
      }
      end_products<kWgmma>();
      if constexpr (Shared::kHasStates) {
        auto* to = load_shared_pointer(parts.place(offsetof(BlockPlace, to))) +
                   (static_cast<std::int64_t>(i) * p.in.shape.heads * kSize + group * 64 + warp * 16) * kSize * 2;
        write_operand_rows<64>(operand, to + part * 128, kSize * 2,
                               parts.at(Shared::kStaging + (group * 4 + warp) * Shared::kStagingWarp));
      }
      wait_products<kWgmma, 0>();
      pin(w);
      if constexpr (kHasOutput) {
        pin(o);
      }
    }

    // W^T, in operands of R's product: beta (V^T - gamma S^T K^T)
    const auto v_tile = parts.v(stage) + static_cast<std::uint32_t>(group * kTileBytes);
    const auto lane = lane_here();
    const auto v_columns = warp_columns(v_tile, warp, static_cast<int>(lane));
    std::uint32_t x[4][4];
    std::uint32_t v[4];
    const auto t = 8 * (lane % 4);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      if (n % 2 == 0) {
        load_matrices_transposed(v, v_columns + static_cast<std::uint32_t>(n * 8 * 128));
      }
      const auto at = gates + t + static_cast<std::uint32_t>(n * 32);
      const auto gamma = load_shared_float2(at + static_cast<std::uint32_t>(offsetof(ChunkGates, gamma)));
      const auto beta = load_shared_float2(at + static_cast<std::uint32_t>(offsetof(ChunkGates, beta)));
      const auto low = v[(n & 1) * 2];
      const auto high = v[(n & 1) * 2 + 1];
      w[n][0] = beta.x * (low_bf16(low) - gamma.x * w[n][0]);
      w[n][1] = beta.y * (high_bf16(low) - gamma.y * w[n][1]);
      w[n][2] = beta.x * (low_bf16(high) - gamma.x * w[n][2]);
      w[n][3] = beta.y * (high_bf16(high) - gamma.y * w[n][3]);
      if (n % 2 == 1) {
        pack_operand(x[n / 2], w[n - 1], w[n]);
      }
    }
    pin(x);
    barrier_wait(barriers.factors_full(slot), static_cast<std::uint32_t>(i >> 1) & 1U);
    begin_products<kWgmma>();
    multiply_lower<kWgmma>(w, x, parts.r(slot));
    end_products<kWgmma>();
    // Meanwhile: what decays.
    const float decay = load_shared_float(gates + static_cast<std::uint32_t>(offsetof(ChunkGates, gamma)) + 63 * 4);
#pragma unroll
    for (int n = 0; n < kSize / 8; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        s[n][j] *= decay;
      }
    }
    if constexpr (kHasOutput) {
      for_each_gate(gates, offsetof(ChunkGates, gamma), [&](int n, const float2& gamma) {
        o[n][0] *= p.in.scale * gamma.x;
        o[n][1] *= p.in.scale * gamma.y;
        o[n][2] *= p.in.scale * gamma.x;
        o[n][3] *= p.in.scale * gamma.y;
      });
    }
    wait_products<kWgmma, 0>();
    pin(w);

    if constexpr (kHasOutput) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        pack_operand(x[j], w[2 * j], w[2 * j + 1]);
      }
      pin(x);
      pin(o);
      begin_products<kWgmma>();
      multiply_lower<kWgmma>(o, x, parts.p(slot));
      end_products<kWgmma>();
    }
    std::uint32_t ru[4][4];
    for_each_gate(gates, offsetof(ChunkGates, rest), [&](int n, const float2& rest) {
      ru[n / 2][(n & 1) * 2] = pack_bf16(rest.x * w[n][0], rest.y * w[n][1]);
      ru[n / 2][(n & 1) * 2 + 1] = pack_bf16(rest.x * w[n][2], rest.y * w[n][3]);
    });
    pin(ru);
    pin(s);
    begin_products<kWgmma>();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      multiply<kWgmma, kSize / 8, 0, true, false>(s, ru[step], parts.k(stage), step);
    }
    end_products<kWgmma>();
    if constexpr (kHasOutput) {
      wait_products<kWgmma, 1>();
      pin(o);
      auto* to = load_shared_pointer(parts.place(offsetof(BlockPlace, to))) +
                 (static_cast<std::int64_t>(i) * 64 * p.output.row_stride + group * 64 + warp * 16) * 2;
      const int rows = static_cast<int>(load_shared(parts.place(offsetof(BlockPlace, rows)))) - i * 64;
      write_transposed<kWgmma>(o, to, p.output.row_stride, rows, v_tile, warp);
    }
    arrive_warp(barriers.factors_empty(slot));
    wait_products<kWgmma, 0>();
    pin(s);
    arrive_warp(barriers.empty(stage));
  }
  auto* end = reinterpret_cast<float*>(load_shared_pointer(parts.place(offsetof(BlockPlace, end))));
  if (end != nullptr) {
    write_state<kSize>(s, end + group * 64 * kSize, warp);
  }
}

}  // namespace hydra::kernels
