#pragma once
// The gradients of one chunk and head that need no scan (kernels.md sections 1 and 5), given the state S at the chunk's
// start, the gradient dS' of the state after it, and dV:
//   W = V - gamma (K S)   U = beta W + strict_lower(R) (beta W)   M = scale Gamma lower(dO U^T)
//   dN = -Gamma strict_lower(dV U^T)   dQ = scale gamma (dO S^T) + M K
//   dK = rest (U dS'^T) - gamma (dV S^T) + M^T Q + (dN + dN^T) K
//   dG = rowsum(Z) - colsum(Z) + q.dQ_inter + k.dK_S - k.dK_dS',  Z = strict_lower(dP * P) + dN * (K K^T)
//   dG_C += sum k.dK_dS' + gamma_C <dS', S>,   dg = reverse cumulative sum of dG
//   dbeta = (dV.W + rowsum(dN * (K K^T))) / beta      (dX.E with E = W - N U: no division of U by beta)
// A block works through many chunks and heads. Two warpgroups multiply: each makes one half of the columns of U, dQ and
// dK (of 64 columns the first makes U and dQ, the second dK), and the first makes M, the second dN. A third one loads
// what comes next into every buffer that becomes free, and makes R, <dS', S> and dg.

#include "kernels/gated_delta/gradients_loads.cuh"

namespace hydra::kernels {

__device__ __forceinline__ float sum_quad(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

// This lane's part of the row sums of acc * tile: rows g and g + 8 of the warp.
__device__ __forceinline__ float2 row_dots(const float (&acc)[8][4], std::uint32_t tile, int warp) {
  float2 sum{};
#pragma unroll
  for (int n = 0; n < 8; n += 2) {
    std::uint32_t x[4];
    load_operand(x, tile, warp, n / 2);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sum.x += acc[n + i][0] * low_bf16(x[2 * i]) + acc[n + i][1] * high_bf16(x[2 * i]);
      sum.y += acc[n + i][2] * low_bf16(x[2 * i + 1]) + acc[n + i][3] * high_bf16(x[2 * i + 1]);
    }
  }
  return sum;
}

// acc = rows of the tile - acc, row by row times low (row g) and high (row g + 8).
__device__ __forceinline__ void subtract_from_rows(float (&acc)[8][4], std::uint32_t tile, float low, float high,
                                                   int warp) {
#pragma unroll
  for (int n = 0; n < 8; n += 2) {
    std::uint32_t x[4];
    load_operand(x, tile, warp, n / 2);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      acc[n + i][0] = low_bf16(x[2 * i]) - low * acc[n + i][0];
      acc[n + i][1] = high_bf16(x[2 * i]) - low * acc[n + i][1];
      acc[n + i][2] = low_bf16(x[2 * i + 1]) - high * acc[n + i][2];
      acc[n + i][3] = high_bf16(x[2 * i + 1]) - high * acc[n + i][3];
    }
  }
}
__device__ __forceinline__ void scale_rows(float (&acc)[8][4], float low, float high) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    acc[n][0] *= low;
    acc[n][1] *= low;
    acc[n][2] *= high;
    acc[n][3] *= high;
  }
}

// Writes F = scale Gamma lower(z) (strict: below the diagonal) to the 16 x 16 blocks of a tile on and below its
// diagonal; the others stay zero. Then z = strict_lower(F * x), and this lane's part of z's row sums is returned. Left
// of the block on the diagonal exp(G_i - G_j) is exp(G_i - G_r) exp(G_r - G_j) with r the first of the warp's rows,
// both at most 1.
template <bool kStoreMatrix>
__device__ __forceinline__ float2 store_factor(float (&z)[8][4], const float (&x)[8][4], std::uint32_t tile,
                                               float scale, bool strict, std::uint32_t gates, int warp, int lane) {
  const int row = warp * 16 + lane / 4;
  const auto totals = row_totals(gates, row);
  const auto total_at = gates + static_cast<std::uint32_t>(offsetof(ChunkGates, total));
  const float first_total = load_shared_float(total_at + static_cast<std::uint32_t>(warp * 64));
  const float low = scale * exp2_fast(totals.low - first_total);
  const float high = scale * exp2_fast(totals.high - first_total);
  float2 sum{};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    FourValues f[2]{};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int n = 2 * j + i;
      auto& y = z[n];
      if (j < warp) {
        const auto total = load_shared_float2(total_at + static_cast<std::uint32_t>((n * 8 + lane % 4 * 2) * 4));
        const float even = exp2_fast(first_total - total.x);
        const float odd = exp2_fast(first_total - total.y);
        f[i] = {{low * even * y[0], low * odd * y[1], high * even * y[2], high * odd * y[3]}};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          y[k] = f[i].x[k] * x[n][k];
        }
      } else if (j == warp) {
        f[i] = lower<false>(row - (strict ? 1 : 0), n, decays(gates, totals, n),
                            {{scale * y[0], scale * y[1], scale * y[2], scale * y[3]}});
        const auto below = lower<true>(row, n, f[i], {{x[n][0], x[n][1], x[n][2], x[n][3]}});
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          y[k] = below.x[k];
        }
      } else {
        y[0] = y[1] = y[2] = y[3] = 0.0F;
      }
      sum.x += y[0] + y[1];
      sum.y += y[2] + y[3];
    }
    if (j <= warp) {
      std::uint32_t a[4];
      pack_operand(a, f[0].x, f[1].x);
      store_operand<kStoreMatrix>(a, tile, warp, j);
    }
  }
  return sum;
}

// One step of column_sums: of 2 kCount columns each lane keeps half, and hands the other half to the lane that keeps
// it.
template <int kCount>
__device__ __forceinline__ void halve_columns(float (&x)[16]) {
  const bool upper = (threadIdx.x & (2 * kCount)) != 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float given = __shfl_xor_sync(0xffffffffU, upper ? x[i] : x[i + kCount], 2 * kCount);
    x[i] = (upper ? x[i + kCount] : x[i]) + given;
  }
}
// Column sums over a warp's 16 rows of z, written to to[0..64).
__device__ __forceinline__ void column_sums(const float (&z)[8][4], float* to) {
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    x[i] = z[i / 2][i & 1] + z[i / 2][(i & 1) + 2];
  }
  halve_columns<8>(x);
  halve_columns<4>(x);
  halve_columns<2>(x);
  *reinterpret_cast<float2*>(to + 2 * (threadIdx.x % 32)) = make_float2(x[0], x[1]);
}

// Stores the rows of acc, packed to bf16, in a tile.
template <bool kStoreMatrix>
__device__ __forceinline__ void store_rows(const float (&acc)[8][4], std::uint32_t tile, int warp) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    std::uint32_t a[4];
    pack_operand(a, acc[2 * j], acc[2 * j + 1]);
    store_operand<kStoreMatrix>(a, tile, warp, j);
  }
}

// A warp's 16 rows of 64 columns to global memory as bf16, those from `rows` on left out. `staging`: 2 KB of the warp.
template <bool kStoreMatrix>
__device__ __forceinline__ void write_rows(const float (&acc)[8][4], void* to, std::int64_t row_stride, int rows,
                                           std::uint32_t staging) {
  const int lane = recomputed(static_cast<int>(threadIdx.x % 32));
  __syncwarp();
  store_rows<kStoreMatrix>(acc, staging, 0);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = i * 4 + lane / 8;
    if (row < rows) {
      *reinterpret_cast<uint4*>(static_cast<char*>(to) + (row * row_stride + lane % 8 * 8) * 2) =
          load_shared_16(tile_address(staging, row, lane % 8));
    }
  }
}

// The warpgroups that multiply. kGroup: 0 makes U and dQ, 1 makes dK, -1 (one code for both warpgroups) half of each.
template <int kSize, class Shared, bool kWgmma, int kGroup>
__device__ __forceinline__ void multiply_chunks(const GradientsParams& p, char* memory, std::uint32_t base) {
  constexpr int kStages = Shared::kStages;
  constexpr int kSteps = kSize / 16;
  const GradientsBarriers<Shared> barriers{base};
  const auto at = [&](int offset) { return base + static_cast<std::uint32_t>(offset); };
  // The shuffle tells the compiler that all lanes have the same group.
  const int group = kGroup < 0 ? __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x / 128), 0) : kGroup;
  constexpr bool kMakesDq = kGroup != 1;  // and U
  constexpr bool kMakesDk = kGroup != 0;
  const int column_tile = kGroup < 0 ? group * kTileBytes : 0;  // of this warpgroup's columns
  const auto heads = static_cast<std::int64_t>(p.in.shape.heads);

  for (int i = 0;; ++i) {
    const int stage = i % kStages;
    const auto phase = static_cast<std::uint32_t>(i) & 1U;
    const auto k_tile = at(Shared::kK + stage * Shared::kRows);
    const auto v_tile = at(Shared::kV + stage * Shared::kRows);
    const auto k_columns = k_tile + static_cast<std::uint32_t>(column_tile);
    const auto u_columns = v_tile + static_cast<std::uint32_t>(column_tile);
    const auto gates = at(Shared::kChunks + stage * static_cast<int>(sizeof(GradientsChunk)));
    auto& sums = reinterpret_cast<GradientsSums*>(memory + Shared::kSums)[i & 1];
    barrier_wait(barriers.keys_full(stage), static_cast<std::uint32_t>(i / kStages) & 1U);
    const auto& shared_chunk = reinterpret_cast<const GradientsChunk*>(memory + Shared::kChunks)[stage].chunk;
    if (shared_chunk.rows == 0) {
      return;
    }
    int warp = recomputed(static_cast<int>(threadIdx.x / 32 % 4));  // again further down, to save registers
    const int lane = recomputed(static_cast<int>(threadIdx.x % 32));
    const bool first_of_quad = lane % 4 == 0;
    const int row = warp * 16 + lane / 4;
    const auto gate = [&](std::size_t kind, int i_row) {
      return load_shared_float(gates + static_cast<std::uint32_t>(kind) + static_cast<std::uint32_t>(i_row * 4));
    };
    const float gamma_low = gate(offsetof(ChunkGates, gamma), row);
    const float gamma_high = gate(offsetof(ChunkGates, gamma), row + 8);

    // dO S^T, dV S^T, and W behind which they run.
    barrier_wait(barriers.state_full(), phase);
    barrier_wait(barriers.rows_full(), phase);
    fence_for_wgmma();
    float w[8][4];
    float dq[8][4];
    float dk[8][4];  // starts as dV S^T
    begin_products<kWgmma>();
    if constexpr (kMakesDq) {
      multiply_tiles<kWgmma, 8, false, kSteps, true>(w, k_tile,
                                                     at(Shared::kS + column_tile / kTileBytes * Shared::kRows), warp);
    }
    end_products<kWgmma>();
    if constexpr (kMakesDq) {
      multiply_tiles<kWgmma, 8, true, kSteps, true>(dq, at(Shared::kDO), at(Shared::kS + column_tile), warp,
                                                    Shared::kRows);
    }
    const auto multiply_before = [&] {
      if constexpr (kMakesDk) {
        multiply_tiles<kWgmma, 8, true, kSteps, true>(dk, at(Shared::kDV), at(Shared::kS + column_tile), warp,
                                                      Shared::kRows);
      }
    };
    if constexpr (kWgmma) {
      multiply_before();
    }
    end_products<kWgmma>();
    if constexpr (kMakesDq) {
      wait_products<kWgmma, 1>();
      pin(w);
      subtract_from_rows(w, u_columns, gamma_low, gamma_high, warp);
      const auto dots = row_dots(w, at(Shared::kDV + column_tile), warp);
      const float dot_low = sum_quad(dots.x);
      const float dot_high = sum_quad(dots.y);
      if (first_of_quad) {
        sums.dv_w[group][row] = dot_low;
        sums.dv_w[group][row + 8] = dot_high;
      }
      const float beta_low = fmaxf(gate(offsetof(ChunkGates, beta), row), kSmallestBeta);
      const float beta_high = fmaxf(gate(offsetof(ChunkGates, beta), row + 8), kSmallestBeta);
      scale_rows(w, beta_low, beta_high);
      store_rows<kWgmma>(w, u_columns, warp);
    }
    if (group == 0) {
      barrier_wait(barriers.query_full(), phase);
    }
    fence_for_wgmma();
    named_barrier(1 + group, 128);

    // U, and behind it Q K^T or K K^T.
    float kk[8][4];
    barrier_wait(barriers.r_full(), phase);
    begin_products<kWgmma>();
    if constexpr (kMakesDq) {
      multiply_tiles<kWgmma, 8, true, 4, false>(w, at(Shared::kR), u_columns, warp);
    }
    end_products<kWgmma>();
    multiply_tiles<kWgmma, 8, false, kSteps, true>(kk, group == 0 ? at(Shared::kQ) : k_tile, k_tile, warp);
    end_products<kWgmma>();
    wait_products<kWgmma, 1>();
    pin(w);
    pin(dq);
    if constexpr (kWgmma) {
      pin(dk);
      arrive_warp(barriers.state_empty());
    }
    named_barrier(1 + group, 128);  // the whole warpgroup has read beta W
    if constexpr (kMakesDq) {
      store_rows<kWgmma>(w, u_columns, warp);
    }
    barrier_wait(barriers.query_full(), phase);
    barrier_wait(barriers.d_state_full(), phase);
    fence_for_wgmma();
    named_barrier(3, 256);  // U is complete

    // dO U^T or dV U^T, and behind it U dS'^T.
    float z[8][4];
    float after[8][4];
    begin_products<kWgmma>();
    multiply_tiles<kWgmma, 8, false, kSteps, true>(z, group == 0 ? at(Shared::kDO) : at(Shared::kDV), v_tile, warp);
    end_products<kWgmma>();
    const auto multiply_after = [&] {
      if constexpr (kMakesDk) {
        multiply_tiles<kWgmma, 8, true, kSteps, true>(after, v_tile, at(Shared::kDS + column_tile), warp,
                                                      Shared::kRows);
      }
      end_products<kWgmma>();
    };
    if constexpr (kWgmma) {
      multiply_after();
    }
    float row_low = 0.0F;  // this lane's part of dG
    float row_high = 0.0F;
    if constexpr (kMakesDq) {
      scale_rows(dq, p.in.scale * gamma_low, p.in.scale * gamma_high);
      const auto dots = row_dots(dq, at(Shared::kQ + column_tile), warp);
      row_low += dots.x;
      row_high += dots.y;
    }
    wait_products<kWgmma, 1>();
    pin(kk);
    pin(z);
    if constexpr (kWgmma) {
      arrive_warp(barriers.rows_empty());
    }

    const auto z_rows = store_factor<kWgmma>(z, kk, group == 0 ? at(Shared::kM) : at(Shared::kR),
                                             group == 0 ? p.in.scale : -1.0F, group == 1, gates, warp, lane);
    fence_for_wgmma();
    arrive_warp(barriers.factors_full());
    column_sums(z, sums.column[group][warp]);
    row_low += z_rows.x;
    row_high += z_rows.y;
    if (group == 1) {
      const float z_low = sum_quad(z_rows.x);
      const float z_high = sum_quad(z_rows.y);
      const auto chunk = shared_chunk;
      const auto write = [&](int r, float z_row) {
        const float dv_w = kSize == 64 ? sums.dv_w[0][r] : sums.dv_w[0][r] + sums.dv_w[1][r];
        const float beta = fmaxf(gate(offsetof(ChunkGates, beta), r), kSmallestBeta);
        if (r < chunk.rows) {
          p.d_beta[(chunk.first_row + r) * heads + chunk.head] = (dv_w + z_row) / beta;
        }
      };
      if (first_of_quad) {
        write(row, z_low);
        write(row + 8, z_high);
      }
    }

    if constexpr (!kWgmma) {  // these products not before, for want of registers
      warp = recomputed(static_cast<int>(threadIdx.x / 32 % 4));
      multiply_before();
      multiply_after();
      arrive_warp(barriers.state_empty());
      arrive_warp(barriers.rows_empty());
    }
    wait_products<kWgmma, 0>();
    if constexpr (kMakesDk) {
      pin(after);
      arrive_warp(barriers.d_state_empty());
      const float rest_low = gate(offsetof(ChunkGates, rest), row);
      const float rest_high = gate(offsetof(ChunkGates, rest), row + 8);
      scale_rows(dk, -gamma_low, -gamma_high);
      scale_rows(after, rest_low, rest_high);
      const auto before_dots = row_dots(dk, k_columns, warp);
      const auto dots = row_dots(after, k_columns, warp);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          dk[n][k] += after[n][k];
        }
      }
      row_low += before_dots.x;
      row_high += before_dots.y;
      row_low -= dots.x;
      row_high -= dots.y;
      const float sum = sum_warp(dots.x + dots.y);
      if (lane == 0) {
        sums.after[group * 4 + warp] = sum;
      }
    }
    row_low = sum_quad(row_low);
    row_high = sum_quad(row_high);
    if (first_of_quad) {
      sums.row[group][row] = row_low;
      sums.row[group][row + 8] = row_high;
    }

    barrier_wait(barriers.factors_full(), phase);
    warp = recomputed(static_cast<int>(threadIdx.x / 32 % 4));
    std::uint32_t m_transposed[4][4];
    std::uint32_t n_symmetric[4][4];  // dN + dN^T, of which one is zero everywhere
    if constexpr (kMakesDk) {
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        std::uint32_t transposed[4];
        load_operand_transposed(m_transposed[step], at(Shared::kM), warp, step);
        load_operand(n_symmetric[step], at(Shared::kR), warp, step);
        load_operand_transposed(transposed, at(Shared::kR), warp, step);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          n_symmetric[step][k] = add_bf16(n_symmetric[step][k], transposed[k]);
        }
      }
    }
    const auto chunk = shared_chunk;
    begin_products<kWgmma>();
    if constexpr (kMakesDq) {
      multiply_tiles<kWgmma, 8, true, 4, false>(dq, at(Shared::kM), k_columns, warp);
    }
    end_products<kWgmma>();
    if constexpr (kMakesDk) {
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        multiply<kWgmma, 8, 0, true, false>(dk, m_transposed[step], at(Shared::kQ + column_tile), step);
      }
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        multiply<kWgmma, 8, 0, true, false>(dk, n_symmetric[step], k_columns, step);
      }
    }
    end_products<kWgmma>();
    const auto staging = at(Shared::kStaging + (group * 4 + warp) * Shared::kStagingWarp);
    const auto write = [&](const float(&acc)[8][4], const HeadRows& to) {
      const auto row_stride = recomputed(to.row_stride);
      const auto first = (chunk.first_row + warp * 16) * row_stride + chunk.head * recomputed(to.head_stride);
      write_rows<kWgmma>(acc, static_cast<char*>(to.data) + (first + column_tile / kTileBytes * 64) * 2, row_stride,
                         chunk.rows - warp * 16, staging);
    };
    if constexpr (kMakesDq) {
      wait_products<kWgmma, 1>();
      pin(dq);
      write(dq, p.dq);
    }
    wait_products<kWgmma, 0>();
    arrive_warp(barriers.chunk_empty(stage));
    if constexpr (kMakesDk) {
      pin(dk);
      write(dk, p.dk);
    }
  }
}

template <int kSize, class Shared, bool kWgmma>
__device__ void chunk_gradients(const GradientsParams& p, char* memory) {
  const auto base = (shared_address(memory) + 1023U) & ~1023U;
  auto* const aligned = memory + (base - shared_address(memory));
  if (threadIdx.x == 0) {
    GradientsBarriers<Shared>{base}.init();
  }
  clear_tiles(base + static_cast<std::uint32_t>(Shared::kR), 2 * kTileBytes, Shared::kThreads);
  __syncthreads();
  if (threadIdx.x < 256) {
    set_registers_up<Shared::kProductRegisters>();
    if constexpr (kSize == 128) {
      multiply_chunks<kSize, Shared, kWgmma, -1>(p, aligned, base);
    } else if (threadIdx.x < 128) {
      multiply_chunks<kSize, Shared, kWgmma, 0>(p, aligned, base);
    } else {
      multiply_chunks<kSize, Shared, kWgmma, 1>(p, aligned, base);
    }
  } else {
    set_registers_down<Shared::kLoadRegisters>();
    load_chunks<kSize, Shared>(p, aligned, base);
  }
}

}  // namespace hydra::kernels
