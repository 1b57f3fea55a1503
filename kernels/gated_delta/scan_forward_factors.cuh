#pragma once
// A factor warpgroup of the forward scan: loads every kFactorGroups-th chunk and forms its factors
//   R = Gamma strict_lower((I + L)^-1),   P = scale Gamma lower(Q K^T)
// while the state warpgroups are at an earlier chunk.

#include "kernels/gated_delta/chunk_inverse.cuh"
#include "kernels/gated_delta/scan_forward_layout.cuh"

namespace hydra::kernels {

template <int kSize>
__device__ __forceinline__ void prefetch_rows(const char* from, std::int64_t row_stride, int rows, int thread) {
  constexpr int kLines = kSize / 64;  // of 128 bytes a row
  const int row = thread / kLines;
  if (row < rows && row < 64) {
    prefetch_to_l2(from + row * row_stride * 2 + thread % kLines * 128);
  }
}

// The segment's i-th chunk, once its stage is free; asks for the one that this warpgroup loads next.
template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__device__ __forceinline__ void load_chunk(const ScanForwardParams& p,
                                           const ScanForwardParts<kSize, kGroups, kWgmma, kMode>& parts, int i,
                                           bool transition) {
  using Shared = ScanForwardShared<kSize, kGroups, kWgmma, kMode>;
  constexpr int kStages = Shared::kStages;
  const auto barriers = parts.barriers();
  const int stage = i % kStages;
  const int thread = recomputed(static_cast<int>(threadIdx.x % 128));
  const auto heads = static_cast<std::int64_t>(p.in.shape.heads);
  const auto place = [&](std::size_t field) { return load_shared_pointer(parts.place(field)); };
  const auto row = static_cast<std::int64_t>(i) * 64;
  const int rows = static_cast<int>(load_shared(parts.place(offsetof(BlockPlace, rows)))) - i * 64;
  barrier_wait(barriers.empty(stage), (static_cast<std::uint32_t>(i / kStages) & 1U) ^ 1U);
  load_tiles<kSize>(parts.k(stage), place(offsetof(BlockPlace, k)) + row * p.in.k.row_stride * 2, p.in.k.row_stride,
                    rows, thread);
  if constexpr (Shared::kHasStates) {
    load_tiles<64>(parts.saved_inverse(stage), place(offsetof(BlockPlace, inverse)) + i * heads * kTileBytes, 64, 64,
                   thread);
  }
  if constexpr (Shared::kHasOutput) {
    load_tiles<kSize>(parts.q(stage), place(offsetof(BlockPlace, q)) + row * p.in.q.row_stride * 2, p.in.q.row_stride,
                      rows, thread);
  }
  if (!transition) {
    load_tiles<kGroups * 64>(parts.v(stage), place(offsetof(BlockPlace, v)) + row * p.in.v.row_stride * 2,
                             p.in.v.row_stride, rows, thread);
  }
  if (thread < 32) {
    const auto gates =
        read_gates(reinterpret_cast<const float*>(place(offsetof(BlockPlace, g))) + row * heads,
                   reinterpret_cast<const float*>(place(offsetof(BlockPlace, beta))) + row * heads, heads, rows);
    write_gates(parts.gates(stage), gates);
  }
  wait_copies();
  fence_for_wgmma();
  arrive_warp(barriers.full(stage));

  const auto next = row + 64 * Shared::kFactorGroups;
  const int next_rows = rows - 64 * Shared::kFactorGroups;
  prefetch_rows<kSize>(place(offsetof(BlockPlace, k)) + next * p.in.k.row_stride * 2, p.in.k.row_stride, next_rows,
                       thread);
  if constexpr (Shared::kHasOutput) {
    prefetch_rows<kSize>(place(offsetof(BlockPlace, q)) + next * p.in.q.row_stride * 2, p.in.q.row_stride, next_rows,
                         thread);
  }
  if (!transition) {
    prefetch_rows<kGroups * 64>(place(offsetof(BlockPlace, v)) + next * p.in.v.row_stride * 2, p.in.v.row_stride,
                                next_rows, thread);
  }
}

// What each step of a chunk's factors derives again from the chunk's number and the lane: over the inverse, which needs
// every register, it would be spilled.
template <class Parts>
struct FactorChunk {
  static constexpr int kStages = Parts::Shared::kStages;
  int stage;
  int slot;
  int unit;
  int warp;
  int row;             // of the accumulators' first
  std::uint32_t pair;  // bytes to this lane's pair of columns
  std::uint32_t gates;
  __device__ __forceinline__ FactorChunk(const Parts& parts, int i) {
    const int chunk = recomputed(i);
    const int lane = static_cast<int>(lane_here());
    stage = chunk % kStages;
    slot = chunk & 1;
    unit = Parts::Shared::kFactorGroups == 2 ? slot : 0;  // = the warpgroup's number
    warp = recomputed(static_cast<int>(threadIdx.x / 32 % 4));
    row = warp * 16 + (lane >> 2);
    pair = static_cast<std::uint32_t>(4 * (lane & 3));
    gates = parts.gates(stage);
  }
};

// The inverse of the chunk, in fp16, in its warpgroup's tile.
template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__device__ __forceinline__ void invert_chunk(const ScanForwardParts<kSize, kGroups, kWgmma, kMode>& parts, int i) {
  using Shared = ScanForwardShared<kSize, kGroups, kWgmma, kMode>;
  const FactorChunk chunk(parts, i);
  float l[8][4];
  begin_products<kWgmma>();
  multiply_tiles<kWgmma, 8, false, kSize / 16, true>(l, parts.k(chunk.stage), parts.k(chunk.stage), chunk.warp);
  end_products<kWgmma>();
  const auto beta = chunk.gates + static_cast<std::uint32_t>(offsetof(ChunkGates, beta) + chunk.row * 4);
  const float beta_low = load_shared_float(beta);
  const float beta_high = load_shared_float(beta + 8 * 4);
  wait_products<kWgmma, 0>();
  pin(l);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    l[n][0] *= beta_low;
    l[n][1] *= beta_low;
    l[n][2] *= beta_high;
    l[n][3] *= beta_high;
  }
  invert_unit_lower(l, parts.at(Shared::kInverses + chunk.unit * Shared::kInverse),
                    parts.at(Shared::kScratches + chunk.unit * Shared::kScratch), 1 + 2 * chunk.unit);
  __syncwarp();
}

// R from the inverse, which is saved if the backward pass will need it.
template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__device__ __forceinline__ void store_r(const ScanForwardParams& p,
                                        const ScanForwardParts<kSize, kGroups, kWgmma, kMode>& parts, int i) {
  using Shared = ScanForwardShared<kSize, kGroups, kWgmma, kMode>;
  const FactorChunk chunk(parts, i);
  const auto x_tile = parts.at(Shared::kInverses + chunk.unit * Shared::kInverse);
  char* saved = nullptr;
  if constexpr (Shared::kHasOutput) {
    saved = load_shared_pointer(parts.place(offsetof(BlockPlace, inverse)));
    if (saved != nullptr) {
      saved += static_cast<std::int64_t>(i) * p.in.shape.heads * kTileBytes + chunk.row * 128 + chunk.pair;
    }
  }
  const auto totals = row_totals(chunk.gates, chunk.row);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    float2 low{};
    float2 high{};
    if (n / 2 <= chunk.warp) {
      low = unpack_fp16(load_shared(tile_address(x_tile, chunk.row, n) + chunk.pair));
      high = unpack_fp16(load_shared(tile_address(x_tile, chunk.row + 8, n) + chunk.pair));
      store_lower<true>(parts.r(chunk.slot), chunk.row, n, decays(chunk.gates, totals, n),
                        {{low.x, low.y, high.x, high.y}});
    }
    if (saved != nullptr) {
      *reinterpret_cast<std::uint32_t*>(saved + n * 16) = pack_bf16(low.x, low.y);
      *reinterpret_cast<std::uint32_t*>(saved + n * 16 + 8 * 128) = pack_bf16(high.x, high.y);
    }
  }
}

template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__device__ __forceinline__ void store_p(float scale, const ScanForwardParts<kSize, kGroups, kWgmma, kMode>& parts,
                                        int i) {
  const FactorChunk chunk(parts, i);
  float qk[8][4];
  begin_products<kWgmma>();
  multiply_tiles<kWgmma, 8, false, kSize / 16, true>(qk, parts.q(chunk.stage), parts.k(chunk.stage), chunk.warp);
  end_products<kWgmma>();
  const auto totals = row_totals(chunk.gates, chunk.row);
  wait_products<kWgmma, 0>();
  pin(qk);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    if (n / 2 <= chunk.warp) {
      store_lower<false>(parts.p(chunk.slot), chunk.row, n, decays(chunk.gates, totals, n),
                         {{scale * qk[n][0], scale * qk[n][1], scale * qk[n][2], scale * qk[n][3]}});
    }
  }
}

template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__device__ __forceinline__ void store_saved_r(const ScanForwardParts<kSize, kGroups, kWgmma, kMode>& parts, int i) {
  const FactorChunk chunk(parts, i);
  const auto saved = parts.saved_inverse(chunk.stage);
  const auto totals = row_totals(chunk.gates, chunk.row);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    if (n / 2 <= chunk.warp) {
      const auto low = load_shared(tile_address(saved, chunk.row, n) + chunk.pair);
      const auto high = load_shared(tile_address(saved, chunk.row + 8, n) + chunk.pair);
      store_lower<true>(parts.r(chunk.slot), chunk.row, n, decays(chunk.gates, totals, n),
                        {{low_bf16(low), high_bf16(low), low_bf16(high), high_bf16(high)}});
    }
  }
}

template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__device__ __forceinline__ void form_factors(const ScanForwardParams& p,
                                             const ScanForwardParts<kSize, kGroups, kWgmma, kMode>& parts, int group,
                                             bool transition) {
  using Shared = ScanForwardShared<kSize, kGroups, kWgmma, kMode>;
  constexpr int kStages = Shared::kStages;
  const auto barriers = parts.barriers();
  const auto chunks = [&] { return static_cast<int>(load_shared(parts.place(offsetof(BlockPlace, chunks)))); };
#pragma unroll 1
  for (int i = group; i < chunks(); i += Shared::kFactorGroups) {
    const auto wait_for_slot = [&] {
      barrier_wait(barriers.factors_empty(i & 1), (static_cast<std::uint32_t>(i >> 1) & 1U) ^ 1U);
    };
    load_chunk(p, parts, i, transition);
    barrier_wait(barriers.full(i % kStages), static_cast<std::uint32_t>(i / kStages) & 1U);
    if constexpr (Shared::kHasStates) {
      wait_for_slot();
      store_saved_r(parts, i);
    } else {
      invert_chunk(parts, i);
      wait_for_slot();
      store_r(p, parts, i);
      if constexpr (Shared::kHasOutput) {
        store_p(p.in.scale, parts, i);
      }
    }
    fence_for_wgmma();
    arrive_warp(barriers.factors_full(i & 1));
  }
}

}  // namespace hydra::kernels
