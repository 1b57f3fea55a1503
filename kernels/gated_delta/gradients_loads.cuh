#pragma once
// Chunk gradients: the warpgroup that loads. It fills every buffer with the next chunk's rows as soon as the products
// have read it, and makes what needs no product of tiles: the gates, R, <dS', S>, and dg from the sums of the others.

#include "kernels/gated_delta/chunk_factors.cuh"
#include "kernels/gated_delta/gradients_layout.cuh"
#include "kernels/gated_delta/tensor_core.cuh"

namespace hydra::kernels {

// dG from its sums, then its reverse cumulative sum, by one warp: lane l holds rows 2l, 2l + 1.
template <class Shared>
__device__ __forceinline__ void write_dg(const GradientsParams& p, const GradientsSums& sums,
                                         const ChunkOfHead& chunk) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto two = [&](const float(&x)[64]) { return *reinterpret_cast<const float2*>(x + 2 * lane); };
  const auto row0 = two(sums.row[0]);
  const auto row1 = two(sums.row[1]);
  float d[2] = {row0.x + row1.x, row0.y + row1.y};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const auto column0 = two(sums.column[0][j]);
    const auto column1 = two(sums.column[1][j]);
    d[0] -= column0.x + column1.x;
    d[1] -= column0.y + column1.y;
  }
  if (lane == 31) {
    d[1] += sums.product[0] + sums.product[1] + sums.product[2] + sums.product[3];
#pragma unroll
    for (int j = 8 - Shared::kDkWarps; j < 8; ++j) {
      d[1] += sums.after[j];
    }
  }
  float suffix = d[0] + d[1];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float behind = __shfl_down_sync(0xffffffffU, suffix, step);
    suffix += lane + step < 32 ? behind : 0.0F;
  }
  const auto heads = static_cast<std::int64_t>(recomputed(p.in.shape.heads));
  auto* dg = p.dg + chunk.first_row * heads + chunk.head;
  if (2 * lane < chunk.rows) {
    dg[2 * lane * heads] = suffix;
  }
  if (2 * lane + 1 < chunk.rows) {
    dg[(2 * lane + 1) * heads] = suffix - d[0];
  }
}

// The warpgroup that loads.
template <int kSize, class Shared>
__device__ __forceinline__ void load_chunks(const GradientsParams& p, char* memory, std::uint32_t base) {
  constexpr int kStages = Shared::kStages;
  const GradientsBarriers<Shared> barriers{base};
  const auto at = [&](int offset) { return base + static_cast<std::uint32_t>(offset); };
  const int warp = static_cast<int>(threadIdx.x / 32 % 4);
  const auto heads = static_cast<std::uint32_t>(p.in.shape.heads);
  auto* const chunks = reinterpret_cast<GradientsChunk*>(memory + Shared::kChunks);

  std::uint32_t candidate = blockIdx.x;
  const auto find = [&]() -> ChunkOfHead {  // heads vary fastest; slots without a chunk are skipped
    const auto end = static_cast<std::uint32_t>(p.in.shape.rows / kGatedDeltaChunk + p.in.shape.sequences) * heads;
    for (; candidate < end; candidate += gridDim.x) {
      const auto slot = static_cast<std::int64_t>(candidate / heads);
      const auto range = sequence_range(p.in.offsets, sequence_of_slot(p.in.offsets, p.in.shape.sequences, slot, 64));
      const int c = static_cast<int>(slot - range.first_slot);
      if (c < range.chunks) {
        const int left = range.length - c * 64;
        const int head = static_cast<int>(candidate % heads);
        const auto index = candidate;
        candidate += gridDim.x;
        return {static_cast<int>(range.first_row) + c * 64, left < 64 ? left : 64, head,
                head / (p.in.shape.heads / p.in.shape.key_heads), index};
      }
    }
    return {};
  };
  const auto load_rows = [&](int offset, const ConstHeadRows& from, const ChunkOfHead& chunk, int head) {
    load_tiles<kSize>(at(offset), head_rows(from, chunk.first_row, head), recomputed(from.row_stride), chunk.rows,
                      recomputed(static_cast<int>(threadIdx.x % 128)));
  };
  const auto load_state = [&](int offset, const void* from, const ChunkOfHead& chunk, std::uint32_t full) {
    const auto* source = static_cast<const char*>(from) + static_cast<std::int64_t>(chunk.index) * Shared::kState;
#pragma unroll
    for (int i = 0; i < kSize / 64; ++i) {
      load_tiles<kSize>(at(offset + i * Shared::kRows), source + i * Shared::kRows, kSize, 64,
                        recomputed(static_cast<int>(threadIdx.x % 128)));
    }
    barrier_arrive_after_copies(full);
  };
  const auto load_query = [&](const ChunkOfHead& chunk) {
    load_rows(Shared::kQ, p.in.q, chunk, chunk.key_head);
    barrier_arrive_after_copies(barriers.query_full());
  };
  const auto load_output_gradients = [&](const ChunkOfHead& chunk) {
    load_rows(Shared::kDO, p.d_output, chunk, chunk.head);
    load_rows(Shared::kDV, p.dv, chunk, chunk.head);
    barrier_arrive_after_copies(barriers.rows_full());
  };
  const auto load_keys = [&](const ChunkOfHead& chunk, int stage) {
    const bool any = chunk.rows > 0;
    const auto stride = static_cast<std::int64_t>(recomputed(p.in.shape.heads));
    const auto first_gate = chunk.first_row * stride + chunk.head;
    GateValues gates{};
    if (warp == 0 && any) {
      gates = read_gates(p.in.g + first_gate, p.in.beta + first_gate, stride, chunk.rows);
    }
    if (any) {
      load_rows(Shared::kK + stage * Shared::kRows, p.in.k, chunk, chunk.key_head);
      load_rows(Shared::kV + stage * Shared::kRows, p.in.v, chunk, chunk.head);
    }
    barrier_arrive_after_copies(barriers.keys_full(stage));
    if (warp == 0) {
      write_gates(chunks[stage].gates, gates);
      if (threadIdx.x % 32 == 0) {
        chunks[stage].chunk = chunk;
      }
      barrier_arrive(barriers.keys_full(stage));
    }
  };
  SavedInverse inverse;
  const auto load_inverse = [&](const ChunkOfHead& chunk) {
    read_inverse(inverse, static_cast<const char*>(p.inverse) + static_cast<std::int64_t>(chunk.index) * kTileBytes,
                 recomputed(warp));
  };
  const auto make_r = [&](int i) {
    const int stage = i % kStages;
    barrier_wait(barriers.keys_full(stage), static_cast<std::uint32_t>(i / kStages) & 1U);
    form_r(inverse, at(Shared::kR), at(Shared::kChunks + stage * static_cast<int>(sizeof(GradientsChunk))),
           recomputed(warp));
    fence_for_wgmma();
    arrive_warp(barriers.r_full());
  };

  const auto first = find();
  load_keys(first, 0);
  if (first.rows == 0) {
    return;
  }
  load_inverse(first);
  load_state(Shared::kS, p.states, first, barriers.state_full());
  load_output_gradients(first);
  load_query(first);
  load_state(Shared::kDS, p.d_states, first, barriers.d_state_full());
  ChunkOfHead ahead[kStages];  // the next ones; the keys of all but the last of them are on their way
#pragma unroll
  for (int s = 0; s < kStages; ++s) {
    ahead[s] = find();
    if (s + 1 < kStages) {
      load_keys(ahead[s], s + 1);
    }
  }

  make_r(0);

  for (int i = 0;; ++i) {
    const int stage = i % kStages;
    const auto phase = static_cast<std::uint32_t>(i) & 1U;
    const auto& next = ahead[0];
    const bool any = next.rows > 0;
    auto& sums = reinterpret_cast<GradientsSums*>(memory + Shared::kSums)[i & 1];
    const auto gates = at(Shared::kChunks + stage * static_cast<int>(sizeof(GradientsChunk)));

    barrier_wait(barriers.state_full(), phase);
    barrier_wait(barriers.d_state_full(), phase);
    float product = 0.0F;
#pragma unroll 2
    for (int offset = recomputed(static_cast<int>(threadIdx.x % 128)) * 16; offset < Shared::kState;
         offset += 128 * 16) {
      const auto a = load_shared_16(at(Shared::kS + offset));
      const auto b = load_shared_16(at(Shared::kDS + offset));
      product += low_bf16(a.x) * low_bf16(b.x) + high_bf16(a.x) * high_bf16(b.x) + low_bf16(a.y) * low_bf16(b.y) +
                 high_bf16(a.y) * high_bf16(b.y) + low_bf16(a.z) * low_bf16(b.z) + high_bf16(a.z) * high_bf16(b.z) +
                 low_bf16(a.w) * low_bf16(b.w) + high_bf16(a.w) * high_bf16(b.w);
    }
    product = sum_warp(product);
    if (threadIdx.x % 32 == 0) {
      sums.product[warp] =
          product * load_shared_float(gates + static_cast<std::uint32_t>(offsetof(ChunkGates, gamma)) + 63 * 4);
    }
    named_barrier(4, 128);  // all have read S and dS', and written their part of the product

    barrier_wait(barriers.state_empty(), phase);
    if (any) {
      load_state(Shared::kS, p.states, next, barriers.state_full());
    }
    barrier_wait(barriers.rows_empty(), phase);
    if (any) {
      load_output_gradients(next);
    }
    barrier_wait(barriers.d_state_empty(), phase);
    if (any) {
      load_state(Shared::kDS, p.d_states, next, barriers.d_state_full());
      load_inverse(next);
    }
    barrier_wait(barriers.chunk_empty(stage), static_cast<std::uint32_t>(i / kStages) & 1U);
    if (any) {
      load_query(next);
      if constexpr (kStages > 1) {
        make_r(i + 1);
      }
    }
    const auto chunk = chunks[stage].chunk;
    load_keys(ahead[kStages - 1], stage);
    if (warp == 0) {
      write_dg<Shared>(p, sums, chunk);
    }
    if (!any) {
      return;
    }
    if constexpr (kStages == 1) {  // its gates were written just now
      make_r(i + 1);
    }
#pragma unroll
    for (int s = 0; s + 1 < kStages; ++s) {
      ahead[s] = ahead[s + 1];
    }
    ahead[kStages - 1] = find();
  }
}

}  // namespace hydra::kernels
