#pragma once
// The forward scan over the chunks of one sequence and head (kernels.md sections 1 and 4), states transposed:
//   W^T = V^T - S^T (gamma K)^T        U^T = beta W^T + (beta W^T) strict_lower(R)^T,   R = Gamma (I + L)^-1
//   O^T = scale gamma S^T Q^T + U^T P^T,  P = scale Gamma lower(Q K^T)      S^T <- gamma_C S^T + (rest U)^T K
// Warpgroups: state (one per 64 rows of V), then one that forms R and P a chunk ahead, then the producer of tiles.

#include "kernels/gated_delta/chunk_inverse.cuh"
#include "kernels/gated_delta/scan_common.cuh"
#include "kernels/gated_delta/tensor_core.cuh"

namespace hydra::kernels {

// Where a sequence is cut into segments, each starts from the state that the segment summaries gave it. A summary is
// what the segment makes of its start: S_end^T = S_start^T Phi + N^T. N is the scan from a zero state; row r of Phi [K,
// K] is the scan of the r-th unit vector with V = 0.
template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
struct ScanForwardShared {
  static constexpr int kStages = 3;
  static constexpr int kKTile = kSize / 64 * kTileBytes;
  static constexpr int kQTile = kMode == ScanMode::output ? kKTile : 0;
  static constexpr int kVTile = kGroups * kTileBytes;
  static constexpr int kInverseTile = kMode == ScanMode::states ? kTileBytes : 0;
  static constexpr int kStage = kKTile + kQTile + kVTile + kInverseTile;
  static constexpr int kFactor = (kMode == ScanMode::output ? 2 : 1) * kTileBytes;  // R, P
  static constexpr int kFactors = kStages * kStage;                                 // two slots
  static constexpr int kInverse = kFactors + 2 * kFactor;                           // fp16 tile of the inverse
  static constexpr int kScratch = kInverse + (kMode == ScanMode::states ? 0 : kTileBytes);
  static constexpr int kStaging = kScratch + (kMode == ScanMode::states ? 0 : kInverseScratchBytes);
  static constexpr int kStagingWarp = kMode == ScanMode::states   ? 16 * kSize * 2
                                      : kMode == ScanMode::output ? 64 * 32
                                                                  : 0;
  static constexpr int kGates = kStaging + kGroups * 4 * kStagingWarp;
  static constexpr int kBarriers = kGates + kStages * static_cast<int>(sizeof(ChunkGates));
  static constexpr int kBytes = kBarriers + 16 * 8 + 1024;  // the base is aligned to 1024 at run time
  // With setmaxnreg the producer is a warpgroup that gives up its registers; without, the factors' warpgroup loads too.
  static constexpr int kThreads = (kGroups + (kWgmma ? 2 : 1)) * 128;
  static constexpr int kStateRegisters = kGroups == 1                ? 216
                                         : kMode == ScanMode::output ? 192
                                         : kMode == ScanMode::states ? 184
                                                                     : 176;
  static constexpr int kFactorRegisters = kGroups == 1                ? 160
                                          : kMode == ScanMode::output ? 88
                                          : kMode == ScanMode::states ? 104
                                                                      : 120;
  static constexpr int kLoadRegisters = kGroups == 1 ? 56 : 40;
  static_assert(kGroups * kStateRegisters + kFactorRegisters + kLoadRegisters <= 512);
};

template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__device__ void scan_forward(const ScanForwardParams& p, char* memory) {
  using Shared = ScanForwardShared<kSize, kGroups, kWgmma, kMode>;
  constexpr int kStages = Shared::kStages;
  constexpr bool kHasOutput = kMode == ScanMode::output;
  const int head = static_cast<int>(blockIdx.x % static_cast<unsigned>(p.in.shape.heads));
  const auto segment_slot = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(p.in.shape.heads));
  const auto segment = segment_of_slot(p.in.offsets, p.in.shape.sequences, segment_slot, p.segments.chunks);
  constexpr int kValueBlocks = kSize / 64 / kGroups;
  const bool transition = kMode == ScanMode::summary && static_cast<int>(blockIdx.y) >= kValueBlocks;  // Phi, not N
  // The last segment's end is nobody's start, and the first one starts from the sequence's own initial state.
  if (segment.index >= segment.count ||
      (kMode == ScanMode::summary && (segment.index + 1 == segment.count || (transition && segment.index == 0)))) {
    return;
  }
  const auto& range = segment.sequence;
  const int chunks = segment.chunks;
  const int key_head = head / (p.in.shape.heads / p.in.shape.key_heads);
  const int first_value = static_cast<int>(blockIdx.y) % kValueBlocks * kGroups * 64;
  const int group = static_cast<int>(threadIdx.x / 128);
  const int warp = static_cast<int>(threadIdx.x / 32 % 4);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const unsigned t = threadIdx.x % 4;

  const auto base = (shared_address(memory) + 1023U) & ~1023U;
  const auto gates_of = [&](int stage) {
    return base + static_cast<std::uint32_t>(Shared::kGates + stage * static_cast<int>(sizeof(ChunkGates)));
  };
  const auto stage_of = [&](int stage) { return base + static_cast<std::uint32_t>(stage * Shared::kStage); };
  const auto factor_of = [&](int slot) {
    return base + static_cast<std::uint32_t>(Shared::kFactors + slot * Shared::kFactor);
  };
  const ScanBarriers<kStages> barriers{base + Shared::kBarriers};
  if (threadIdx.x == 0) {
    barriers.init((kGroups + 1) * 4, kGroups * 4);
  }
  if (transition) {
    for (int stage = 0; stage < kStages; ++stage) {
      clear_tiles(stage_of(stage) + Shared::kKTile + Shared::kQTile, Shared::kVTile, Shared::kThreads);
    }
  }
  clear_tiles(base + Shared::kFactors, 2 * Shared::kFactor, Shared::kThreads);  // above the diagonal they stay zero
  __syncthreads();
  const auto heads = static_cast<std::int64_t>(p.in.shape.heads);

  // Loads the segment's i-th chunk once its stage is free.
  const auto load_chunk = [&](int i) {
    const int thread = static_cast<int>(threadIdx.x % 128);
    const int stage = i % kStages;
    const int c = segment.first_chunk + i;
    barrier_wait(barriers.empty(stage), (static_cast<std::uint32_t>(i / kStages) & 1U) ^ 1U);
    const int rows = range.length - c * 64 < 64 ? range.length - c * 64 : 64;
    const auto row = range.first_row + c * 64;
    const auto k_tile = stage_of(stage);
    GateValues gates{};
    if (warp == 0) {
      gates = read_gates(p.in.g + row * heads + head, p.in.beta + row * heads + head, heads, rows);
    }
    load_tiles<kSize>(k_tile, head_rows(p.in.k, row, key_head), p.in.k.row_stride, rows, thread);
    if constexpr (kHasOutput) {
      load_tiles<kSize>(k_tile + Shared::kKTile, head_rows(p.in.q, row, key_head), p.in.q.row_stride, rows, thread);
    }
    const auto v_tile = k_tile + Shared::kKTile + Shared::kQTile;
    if (!transition) {
      load_tiles<kGroups * 64>(v_tile, head_rows(p.in.v, row, head, first_value), p.in.v.row_stride, rows, thread);
    }
    if constexpr (kMode == ScanMode::states) {
      const auto* inverse = static_cast<const char*>(p.inverse) + ((range.first_slot + c) * heads + head) * kTileBytes;
      load_tiles<64>(v_tile + Shared::kVTile, inverse, 64, 64, thread);
    }
    barrier_arrive_after_copies(barriers.full(stage));
    if (warp == 0) {
      write_gates(*reinterpret_cast<ChunkGates*>(memory + (gates_of(stage) - shared_address(memory))), gates);
      barrier_arrive(barriers.full(stage));
    }
  };

  if (group < kGroups) {
    if constexpr (kWgmma) {
      set_registers_up<Shared::kStateRegisters>();
    }
    const int value = first_value + group * 64;
    const auto state_size = static_cast<std::int64_t>(kSize) * kSize;
    // Rows of a state [.., H, V, K] of this warpgroup.
    const auto state_rows = [&](std::int64_t i) { return (i * heads + head) * state_size + value * kSize; };
    float s[kSize / 8][4];
    if (transition) {
      unit_rows<kSize>(s, value + warp * 16);
    } else {
      const float* from = segment.index == 0           ? p.in.initial_state
                          : kMode == ScanMode::summary ? nullptr
                                                       : p.segments.states;
      const auto at = state_rows(segment.index == 0 ? segment.sequence_index : segment_slot);
      read_state<kSize>(s, from == nullptr ? nullptr : from + at, warp);
    }
    const auto staging =
        base + static_cast<std::uint32_t>(Shared::kStaging + (group * 4 + warp) * Shared::kStagingWarp);
    for (int i = 0; i < chunks; ++i) {
      const int c = segment.first_chunk + i;
      const int stage = i % kStages;
      const int slot = i & 1;
      const auto k_tile = stage_of(stage);
      const auto q_tile = k_tile + Shared::kKTile;
      const auto v_tile = k_tile + static_cast<std::uint32_t>(Shared::kKTile + Shared::kQTile + group * kTileBytes);
      const auto gates = gates_of(stage);
      std::uint32_t operand[kSize / 16][4];
#pragma unroll
      for (int step = 0; step < kSize / 16; ++step) {
        pack_operand(operand[step], s[2 * step], s[2 * step + 1]);
      }
      barrier_wait(barriers.full(stage), static_cast<std::uint32_t>(i / kStages) & 1U);
      fence_for_wgmma();
      float w[8][4];
      float o[8][4];
      begin_products<kWgmma>();
      multiply<kWgmma, 8, 0, false, true>(w, operand[0], k_tile, 0);
#pragma unroll
      for (int step = 1; step < kSize / 16; ++step) {
        multiply<kWgmma, 8, 0, false, false>(w, operand[step], k_tile, step);
      }
      end_products<kWgmma>();
      if constexpr (kHasOutput) {
        multiply<kWgmma, 8, 0, false, true>(o, operand[0], q_tile, 0);
#pragma unroll
        for (int step = 1; step < kSize / 16; ++step) {
          multiply<kWgmma, 8, 0, false, false>(o, operand[step], q_tile, step);
        }
        end_products<kWgmma>();
      }
      if constexpr (kMode == ScanMode::states) {
        auto* to = static_cast<char*>(p.states) +
                   (((range.first_slot + c) * heads + head) * kSize + value + warp * 16) * kSize * 2;
        write_operand_rows<kSize>(operand, to, staging);
      }
      std::uint32_t v[4][4];  // blocks 2j, 2j + 1 of V^T
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        load_matrices_transposed(
            v[j], tile_address(v_tile, 8 * (2 * j + (lane >> 4)) + (lane & 7), warp * 2 + ((lane >> 3) & 1)));
      }
      wait_products<kWgmma, 0>();
      pin(w);
      std::uint32_t bw[4][4];
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const auto column = (static_cast<std::uint32_t>(n) * 8 + 2 * t) * 4;
        const auto gamma = load_shared_float2(gates + offsetof(ChunkGates, gamma) + column);
        const auto beta = load_shared_float2(gates + offsetof(ChunkGates, beta) + column);
        const auto low = v[n / 2][(n & 1) * 2];
        const auto high = v[n / 2][(n & 1) * 2 + 1];
        w[n][0] = beta.x * (low_bf16(low) - gamma.x * w[n][0]);
        w[n][1] = beta.y * (high_bf16(low) - gamma.y * w[n][1]);
        w[n][2] = beta.x * (low_bf16(high) - gamma.x * w[n][2]);
        w[n][3] = beta.y * (high_bf16(high) - gamma.y * w[n][3]);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        pack_operand(bw[j], w[2 * j], w[2 * j + 1]);
      }
      pin(bw);
      barrier_wait(barriers.factors_full(slot), static_cast<std::uint32_t>(i >> 1) & 1U);
      const auto r_tile = factor_of(slot);
      begin_products<kWgmma>();
      multiply_lower<kWgmma>(w, bw, r_tile);
      end_products<kWgmma>();
      wait_products<kWgmma, 0>();
      pin(w);
      std::uint32_t u[4][4];
      std::uint32_t ru[4][4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        pack_operand(u[j], w[2 * j], w[2 * j + 1]);
      }
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const auto column = (static_cast<std::uint32_t>(n) * 8 + 2 * t) * 4;
        const auto rest = load_shared_float2(gates + offsetof(ChunkGates, rest) + column);
        ru[n / 2][(n & 1) * 2] = pack_bf16(rest.x * w[n][0], rest.y * w[n][1]);
        ru[n / 2][(n & 1) * 2 + 1] = pack_bf16(rest.x * w[n][2], rest.y * w[n][3]);
      }
      pin(u);
      pin(ru);
      const float decay = load_shared_float(gates + offsetof(ChunkGates, gamma) + 63 * 4);
#pragma unroll
      for (int n = 0; n < kSize / 8; ++n) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          s[n][j] *= decay;
        }
      }
      begin_products<kWgmma>();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        multiply<kWgmma, kSize / 8, 0, true, false>(s, ru[step], k_tile, step);
      }
      end_products<kWgmma>();
      if constexpr (kHasOutput) {
        pin(o);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          const auto column = (static_cast<std::uint32_t>(n) * 8 + 2 * t) * 4;
          const auto gamma = load_shared_float2(gates + offsetof(ChunkGates, gamma) + column);
          o[n][0] *= p.in.scale * gamma.x;
          o[n][1] *= p.in.scale * gamma.y;
          o[n][2] *= p.in.scale * gamma.x;
          o[n][3] *= p.in.scale * gamma.y;
        }
        begin_products<kWgmma>();
        multiply_lower<kWgmma>(o, u, r_tile + kTileBytes);
        end_products<kWgmma>();
        wait_products<kWgmma, 0>();
        pin(o);
        auto* to =
            static_cast<char*>(p.output.data) +
            ((range.first_row + c * 64) * p.output.row_stride + head * p.output.head_stride + value + warp * 16) * 2;
        write_transposed<kWgmma>(o, to, p.output.row_stride, range.length - c * 64, staging);
      }
      wait_products<kWgmma, 0>();
      pin(s);
      arrive_warp(barriers.empty(stage));
      arrive_warp(barriers.factors_empty(slot));
    }
    if constexpr (kMode == ScanMode::summary) {  // the next slot is the same sequence's next segment
      write_state<kSize>(s,
                         transition ? p.segments.transitions + state_rows(segment_slot)
                                    : p.segments.states + state_rows(segment_slot + 1),
                         warp);
    } else if (p.final_state != nullptr && segment.index + 1 == segment.count) {
      write_state<kSize>(s, p.final_state + state_rows(segment.sequence_index), warp);
    }
  } else if (group == kGroups) {
    if constexpr (kWgmma) {
      set_registers_down<Shared::kFactorRegisters>();
    }
    const int g = lane >> 2;
    const int row = warp * 16 + g;
    if constexpr (!kWgmma) {
      for (int i = 0; i < kStages - 1 && i < chunks; ++i) {
        load_chunk(i);
      }
    }
    for (int i = 0; i < chunks; ++i) {
      const int c = segment.first_chunk + i;
      const int stage = i % kStages;
      const int slot = i & 1;
      const auto k_tile = stage_of(stage);
      const auto gates = gates_of(stage);
      const auto r_tile = factor_of(slot);
      const auto inverse_offset = ((range.first_slot + c) * heads + head) * 64 * 64;
      barrier_wait(barriers.full(stage), static_cast<std::uint32_t>(i / kStages) & 1U);
      fence_for_wgmma();
      const auto totals = row_totals(gates, row);
      if constexpr (kMode == ScanMode::states) {
        const auto x_tile = k_tile + Shared::kKTile + Shared::kVTile;
        barrier_wait(barriers.factors_empty(slot), (static_cast<std::uint32_t>(i >> 1) & 1U) ^ 1U);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          if (n / 2 <= warp) {
            const auto e = decays(gates, totals, n);
            const auto low = load_shared(tile_address(x_tile, row, n) + 4U * t);
            const auto high = load_shared(tile_address(x_tile, row + 8, n) + 4U * t);
            store_lower<true>(r_tile, row, n, e, {low_bf16(low), high_bf16(low), low_bf16(high), high_bf16(high)});
          }
        }
      } else {
        const auto x_tile = base + static_cast<std::uint32_t>(Shared::kInverse);
        float l[8][4];
        begin_products<kWgmma>();
        multiply_tiles<kWgmma, 8, false, kSize / 16, true>(l, k_tile, k_tile, warp);
        end_products<kWgmma>();
        const float beta_low = load_shared_float(gates + offsetof(ChunkGates, beta) + row * 4);
        const float beta_high = load_shared_float(gates + offsetof(ChunkGates, beta) + (row + 8) * 4);
        wait_products<kWgmma, 0>();
        pin(l);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          l[n][0] *= beta_low;
          l[n][1] *= beta_low;
          l[n][2] *= beta_high;
          l[n][3] *= beta_high;
        }
        invert_unit_lower(l, x_tile, base + static_cast<std::uint32_t>(Shared::kScratch), warp, 1);
        float qk[8][4];
        if constexpr (kHasOutput) {
          begin_products<kWgmma>();
          multiply_tiles<kWgmma, 8, false, kSize / 16, true>(qk, k_tile + Shared::kKTile, k_tile, warp);
          end_products<kWgmma>();
        }
        __syncwarp();
        wait_products<kWgmma, 0>();
        if constexpr (kHasOutput) {
          pin(qk);
        }
        barrier_wait(barriers.factors_empty(slot), (static_cast<std::uint32_t>(i >> 1) & 1U) ^ 1U);
        const auto p_tile = r_tile + kTileBytes;
        auto* saved =
            !kHasOutput || p.inverse == nullptr ? nullptr : static_cast<std::uint32_t*>(p.inverse) + inverse_offset / 2;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          const int column = n * 8 + 2 * static_cast<int>(t);
          float2 low{};
          float2 high{};
          if (n / 2 <= warp) {
            const auto e = decays(gates, totals, n);
            low = unpack_fp16(load_shared(tile_address(x_tile, row, n) + 4U * t));
            high = unpack_fp16(load_shared(tile_address(x_tile, row + 8, n) + 4U * t));
            store_lower<true>(r_tile, row, n, e, {low.x, low.y, high.x, high.y});
            if constexpr (kHasOutput) {
              store_lower<false>(
                  p_tile, row, n, e,
                  {p.in.scale * qk[n][0], p.in.scale * qk[n][1], p.in.scale * qk[n][2], p.in.scale * qk[n][3]});
            }
          }
          if (saved != nullptr) {
            saved[(row * 64 + column) / 2] = pack_bf16(low.x, low.y);
            saved[((row + 8) * 64 + column) / 2] = pack_bf16(high.x, high.y);
          }
        }
      }
      fence_for_wgmma();
      arrive_warp(barriers.factors_full(slot));
      arrive_warp(barriers.empty(stage));
      if constexpr (!kWgmma) {
        if (i + kStages - 1 < chunks) {
          load_chunk(i + kStages - 1);
        }
      }
    }
  } else {
    if constexpr (kWgmma) {
      set_registers_down<Shared::kLoadRegisters>();
    }
    for (int i = 0; i < chunks; ++i) {
      load_chunk(i);
    }
  }
}

}  // namespace hydra::kernels
