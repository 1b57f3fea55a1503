#pragma once
// The reverse scan over the chunks of one sequence and head (kernels.md sections 1 and 5), gradients transposed:
//   dU^T = rest dS'^T K^T + dO^T P       dX^T = dU^T + dU^T strict_lower(R)       dV^T = beta dX^T
//   dS^T = gamma_C dS'^T + (scale gamma dO)^T Q - (gamma dV)^T K
// dS' is the gradient of the state after a chunk; it is written per chunk for the gradients of q, k and the gates.
// Warpgroups as in the forward scan.

#include "kernels/gated_delta/chunk_factors.cuh"
#include "kernels/gated_delta/tensor_core.cuh"

namespace hydra::kernels {

template <int kSize, int kGroups, bool kWgmma, ReverseMode kMode>
struct ScanReverseShared {
  static constexpr int kStages = 3;
  static constexpr int kKTile = kSize / 64 * kTileBytes;
  static constexpr int kOTile = kGroups * kTileBytes;
  static constexpr int kStage = 2 * kKTile + kOTile;
  static constexpr int kFactor = 2 * kTileBytes;  // R, P
  static constexpr int kFactors = kStages * kStage;
  static constexpr int kStaging = kFactors + 2 * kFactor;
  static constexpr int kStagingWarp = kMode == ReverseMode::summary ? 0
                                      : 16 * kSize * 2 > 64 * 32    ? 16 * kSize * 2
                                                                    : 64 * 32;
  static constexpr int kGates = kStaging + kGroups * 4 * kStagingWarp;
  static constexpr int kBarriers = kGates + kStages * static_cast<int>(sizeof(ChunkGates));
  static constexpr int kBytes = kBarriers + 16 * 8 + 1024;
  static constexpr int kThreads = (kGroups + (kWgmma ? 2 : 1)) * 128;
};

template <int kSize, int kGroups, bool kWgmma, ReverseMode kMode>
__device__ void scan_reverse(const ScanReverseParams& p, char* memory) {
  using Shared = ScanReverseShared<kSize, kGroups, kWgmma, kMode>;
  constexpr int kStages = Shared::kStages;
  constexpr bool kGradients = kMode == ReverseMode::gradients;
  const int head = static_cast<int>(blockIdx.x % static_cast<unsigned>(p.in.shape.heads));
  const auto segment_slot = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(p.in.shape.heads));
  const auto segment = segment_of_slot(p.in.offsets, p.in.shape.sequences, segment_slot, p.segments.chunks);
  if (segment.index >= segment.count || (!kGradients && segment.index == 0)) {
    return;
  }
  const auto& range = segment.sequence;
  const int chunks = segment.chunks;
  const int last_chunk = segment.first_chunk + chunks - 1;
  const int key_head = head / (p.in.shape.heads / p.in.shape.key_heads);
  const int first_value = static_cast<int>(blockIdx.y) * kGroups * 64;
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
  clear_tiles(base + Shared::kFactors, 2 * Shared::kFactor, Shared::kThreads);  // above the diagonal they stay zero
  __syncthreads();
  const auto heads = static_cast<std::int64_t>(p.in.shape.heads);

  // Loads the i-th chunk from the end once its stage is free.
  const auto load_chunk = [&](int i) {
    const int thread = static_cast<int>(threadIdx.x % 128);
    const int stage = i % kStages;
    const int c = last_chunk - i;
    barrier_wait(barriers.empty(stage), (static_cast<std::uint32_t>(i / kStages) & 1U) ^ 1U);
    const int rows = range.length - c * 64 < 64 ? range.length - c * 64 : 64;
    const auto row = range.first_row + c * 64;
    const auto k_tile = stage_of(stage);
    GateValues gates{};
    if (warp == 0) {
      gates = read_gates(p.in.g + row * heads + head, p.in.beta + row * heads + head, heads, rows);
    }
    load_tiles<kSize>(k_tile, head_rows(p.in.k, row, key_head), p.in.k.row_stride, rows, thread);
    load_tiles<kSize>(k_tile + Shared::kKTile, head_rows(p.in.q, row, key_head), p.in.q.row_stride, rows, thread);
    load_tiles<kGroups * 64>(k_tile + 2 * Shared::kKTile, head_rows(p.d_output, row, head, first_value),
                             p.d_output.row_stride, rows, thread);
    barrier_arrive_after_copies(barriers.full(stage));
    if (warp == 0) {
      write_gates(*reinterpret_cast<ChunkGates*>(memory + (gates_of(stage) - shared_address(memory))), gates);
      barrier_arrive(barriers.full(stage));
    }
  };

  if (group < kGroups) {
    if constexpr (kWgmma) {
      set_registers_up<kGroups == 1 ? 216 : kGradients ? 184 : 176>();
    }
    const int value = first_value + group * 64;
    const auto state_size = static_cast<std::int64_t>(kSize) * kSize;
    // Rows of a state [.., H, V, K] of this warpgroup.
    const auto state_rows = [&](std::int64_t i) { return (i * heads + head) * state_size + value * kSize; };
    const bool at_end = segment.index + 1 == segment.count;
    const float* from = at_end ? p.d_final_state : kGradients ? p.segments.states : nullptr;
    float ds[kSize / 8][4];
    read_state<kSize>(ds, from == nullptr ? nullptr : from + state_rows(at_end ? segment.sequence_index : segment_slot),
                      warp);
    const auto staging =
        base + static_cast<std::uint32_t>(Shared::kStaging + (group * 4 + warp) * Shared::kStagingWarp);
    for (int i = 0; i < chunks; ++i) {
      const int c = last_chunk - i;
      const int stage = i % kStages;
      const int slot = i & 1;
      const auto k_tile = stage_of(stage);
      const auto q_tile = k_tile + Shared::kKTile;
      const auto o_tile = k_tile + static_cast<std::uint32_t>(2 * Shared::kKTile + group * kTileBytes);
      const auto gates = gates_of(stage);
      const auto gate = [&](std::size_t field, int column) {
        return load_shared_float2(gates + static_cast<std::uint32_t>(field) +
                                  (static_cast<std::uint32_t>(column) + 2 * t) * 4);
      };
      std::uint32_t operand[kSize / 16][4];
#pragma unroll
      for (int step = 0; step < kSize / 16; ++step) {
        pack_operand(operand[step], ds[2 * step], ds[2 * step + 1]);
      }
      barrier_wait(barriers.full(stage), static_cast<std::uint32_t>(i / kStages) & 1U);
      fence_for_wgmma();
      float du[8][4];
      begin_products<kWgmma>();
      multiply<kWgmma, 8, 0, false, true>(du, operand[0], k_tile, 0);
#pragma unroll
      for (int step = 1; step < kSize / 16; ++step) {
        multiply<kWgmma, 8, 0, false, false>(du, operand[step], k_tile, step);
      }
      end_products<kWgmma>();
      if constexpr (kGradients) {
        auto* to = static_cast<char*>(p.d_states) +
                   (((range.first_slot + c) * heads + head) * kSize + value + warp * 16) * kSize * 2;
        write_operand_rows<kSize>(operand, to, staging);
      }
      // The part of dS that does not wait for the chain: gamma_C dS' + (scale gamma dO)^T Q.
      const float decay = load_shared_float(gates + static_cast<std::uint32_t>(offsetof(ChunkGates, gamma)) + 63 * 4);
#pragma unroll
      for (int n = 0; n < kSize / 8; ++n) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          ds[n][j] *= decay;
        }
      }
      std::uint32_t scaled[4][4];
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        std::uint32_t x[4];
        load_operand_transposed(x, o_tile, warp, step);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const auto gamma = gate(offsetof(ChunkGates, gamma), step * 16 + r / 2 * 8);
          scaled[step][r] = pack_bf16(p.in.scale * gamma.x * low_bf16(x[r]), p.in.scale * gamma.y * high_bf16(x[r]));
        }
      }
      pin(scaled);
      begin_products<kWgmma>();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        multiply<kWgmma, kSize / 8, 0, true, false>(ds, scaled[step], q_tile, step);
      }
      end_products<kWgmma>();
      wait_products<kWgmma, 1>();
      pin(du);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const auto rest = gate(offsetof(ChunkGates, rest), n * 8);
        du[n][0] *= rest.x;
        du[n][1] *= rest.y;
        du[n][2] *= rest.x;
        du[n][3] *= rest.y;
      }
      barrier_wait(barriers.factors_full(slot), static_cast<std::uint32_t>(i >> 1) & 1U);
      const auto r_tile = factor_of(slot);
      std::uint32_t x[4][4];
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        load_operand_transposed(x[step], o_tile, warp, step);
      }
      begin_products<kWgmma>();
      multiply_lower_rows<kWgmma>(du, x, r_tile + kTileBytes);
      end_products<kWgmma>();
      wait_products<kWgmma, 0>();
      pin(du);
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        pack_operand(x[step], du[2 * step], du[2 * step + 1]);
      }
      pin(x);
      begin_products<kWgmma>();
      multiply_lower_rows<kWgmma>(du, x, r_tile);
      end_products<kWgmma>();
      wait_products<kWgmma, 0>();
      pin(du);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const auto beta = gate(offsetof(ChunkGates, beta), n * 8);
        const auto gamma = gate(offsetof(ChunkGates, gamma), n * 8);
        const float low = beta.x < kSmallestBeta ? kSmallestBeta : beta.x;
        const float high = beta.y < kSmallestBeta ? kSmallestBeta : beta.y;
        du[n][0] *= low;
        du[n][1] *= high;
        du[n][2] *= low;
        du[n][3] *= high;
        x[n / 2][(n & 1) * 2] = pack_bf16(-gamma.x * du[n][0], -gamma.y * du[n][1]);
        x[n / 2][(n & 1) * 2 + 1] = pack_bf16(-gamma.x * du[n][2], -gamma.y * du[n][3]);
      }
      begin_products<kWgmma>();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        multiply<kWgmma, kSize / 8, 0, true, false>(ds, x[step], k_tile, step);
      }
      end_products<kWgmma>();
      if constexpr (kGradients) {
        auto* to = static_cast<char*>(p.dv.data) +
                   ((range.first_row + c * 64) * p.dv.row_stride + head * p.dv.head_stride + value + warp * 16) * 2;
        write_transposed<kWgmma>(du, to, p.dv.row_stride, range.length - c * 64, staging);
      }
      wait_products<kWgmma, 0>();
      pin(ds);
      arrive_warp(barriers.empty(stage));
      arrive_warp(barriers.factors_empty(slot));
    }
    if constexpr (!kGradients) {  // the slot before is the same sequence's previous segment
      write_state<kSize>(ds, p.segments.states + state_rows(segment_slot - 1), warp);
    } else if (p.d_initial_state != nullptr && segment.index == 0) {
      write_state<kSize>(ds, p.d_initial_state + state_rows(segment.sequence_index), warp);
    }
  } else if (group == kGroups) {
    if constexpr (kWgmma) {
      set_registers_down<kGroups == 1 ? 160 : kGradients ? 104 : 120>();
    }
    const int row = warp * 16 + (lane >> 2);
    if constexpr (!kWgmma) {
      for (int i = 0; i < kStages - 1 && i < chunks; ++i) {
        load_chunk(i);
      }
    }
    for (int i = 0; i < chunks; ++i) {
      const int c = last_chunk - i;
      const int stage = i % kStages;
      const int slot = i & 1;
      const auto k_tile = stage_of(stage);
      const auto gates = gates_of(stage);
      const auto r_tile = factor_of(slot);
      SavedInverse inverse;
      read_inverse(inverse, static_cast<const char*>(p.inverse) + ((range.first_slot + c) * heads + head) * kTileBytes,
                   warp);
      barrier_wait(barriers.full(stage), static_cast<std::uint32_t>(i / kStages) & 1U);
      fence_for_wgmma();
      float qk[8][4];
      begin_products<kWgmma>();
      multiply_tiles<kWgmma, 8, false, kSize / 16, true>(qk, k_tile + Shared::kKTile, k_tile, warp);
      end_products<kWgmma>();
      const auto totals = row_totals(gates, row);
      barrier_wait(barriers.factors_empty(slot), (static_cast<std::uint32_t>(i >> 1) & 1U) ^ 1U);
      wait_products<kWgmma, 0>();
      pin(qk);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        if (n / 2 <= warp) {
          const auto e = decays(gates, totals, n);
          const auto& x = inverse.x[n];
          store_lower<true>(r_tile, row, n, e, {{low_bf16(x[0]), high_bf16(x[0]), low_bf16(x[1]), high_bf16(x[1])}});
          store_lower<false>(
              r_tile + kTileBytes, row, n, e,
              {p.in.scale * qk[n][0], p.in.scale * qk[n][1], p.in.scale * qk[n][2], p.in.scale * qk[n][3]});
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
      set_registers_down<kGroups == 2 ? 40 : 56>();
    }
    for (int i = 0; i < chunks; ++i) {
      load_chunk(i);
    }
  }
}

}  // namespace hydra::kernels
