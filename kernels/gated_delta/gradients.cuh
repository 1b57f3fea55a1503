#pragma once
// The gradients of one chunk and head that need no scan (kernels.md sections 1 and 5), given the state S at the chunk's
// start, the gradient dS' of the state after it, and dV:
//   W = V - gamma (K S)   U = beta W + strict_lower(R) (beta W)   M = scale Gamma lower(dO U^T)
//   dN = -Gamma strict_lower(dV U^T)   dQ = scale gamma (dO S^T) + M K
//   dK = rest (U dS'^T) - gamma (dV S^T) + M^T Q + (dN + dN^T) K
//   dG = rowsum(Z) - colsum(Z) + q.dQ_inter + k.dK_S - k.dK_dS',  Z = strict_lower(dP * P) + dN * (K K^T)
//   dG_C += sum k.dK_dS' + gamma_C <dS', S>,   dg = reverse cumulative sum of dG
//   dbeta = (dV.W + rowsum(dN * (K K^T))) / beta      (dX.E with E = W - N U: no division of U by beta)
// Two warpgroups: 0 makes P, M and dQ, 1 makes dN and dK; U's columns are divided between them. Everything of a chunk
// is in shared memory; blocks do not depend on each other.

#include "kernels/gated_delta/scan_common.cuh"
#include "kernels/gated_delta/tensor_core.cuh"

namespace hydra::kernels {

template <int kSize>
struct GradientsShared {
  static constexpr int kThreads = 256;
  static constexpr int kRows = kSize / 64 * kTileBytes;  // 64 rows of kSize
  static constexpr int kState = kSize / 64 * kRows;      // kSize rows
  static constexpr int kK = 0;
  static constexpr int kV = kK + kRows;  // V, then beta W, then U
  static constexpr int kS = kV + kRows;
  static constexpr int kQ = kS + kState;
  static constexpr int kDO = kQ + kRows;
  static constexpr int kDV = kDO + kRows;
  static constexpr int kDS = kDV + kRows;
  static constexpr int kR = kDS + kState;  // R, then dN
  static constexpr int kM = kR + kTileBytes;
  static constexpr int kStagingWarp = 16 * kSize * 2;
  static constexpr int kStaging = kM + kTileBytes;
  static constexpr int kGates = kStaging + kThreads / 32 * kStagingWarp;
  static constexpr int kSums = kGates + static_cast<int>(sizeof(ChunkGates));
  static constexpr int kBytes = kSums + 16 * 64 * 4 + 1024;
};

// Sums of a chunk's rows or columns in shared memory.
struct ChunkSums {
  float row[2][64];        // of the two warpgroups: parts of dG by row
  float column[2][4][64];  // and by column, one a warp, subtracted
  float dv_w[2][64];       // dV.W over the columns of a warpgroup
  float after[4];          // sum of k.dK_dS' by warp of warpgroup 1
  float product[4];        // <dS', S> by warp of warpgroup 0
};

__device__ __forceinline__ float sum_quad(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

// Row sums (rows g and g + 8, complete in every lane of a quad) of acc * tile.
template <int kBlocks>
__device__ __forceinline__ float2 row_dots(const float (&acc)[kBlocks][4], std::uint32_t tile, int row) {
  const auto t = 4 * (threadIdx.x % 4);
  float2 sum{};
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
    const auto low = load_shared(tile_address(tile, row, n) + t);
    const auto high = load_shared(tile_address(tile, row + 8, n) + t);
    sum.x += acc[n][0] * low_bf16(low) + acc[n][1] * high_bf16(low);
    sum.y += acc[n][2] * low_bf16(high) + acc[n][3] * high_bf16(high);
  }
  return {sum_quad(sum.x), sum_quad(sum.y)};
}

// Column sums over a warp's 16 rows of z, written to to[0..64).
__device__ __forceinline__ void column_sums(const float (&z)[8][4], float* to) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float x = z[n][i] + z[n][i + 2];
      x += __shfl_xor_sync(0xffffffffU, x, 4);
      x += __shfl_xor_sync(0xffffffffU, x, 8);
      x += __shfl_xor_sync(0xffffffffU, x, 16);
      if (lane < 4) {
        to[n * 8 + 2 * lane + i] = x;
      }
    }
  }
}

// Accumulators of a warpgroup to 64 rows of global memory as bf16, rows from `rows` on left out.
template <int kSize>
__device__ __forceinline__ void write_rows(const float (&acc)[kSize / 8][4], void* to, std::int64_t row_stride, int rows,
                                           std::uint32_t staging, int warp) {
  constexpr int kPieces = kSize / 8;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int g = lane >> 2;
  const auto at = [&](int row, int piece) {
    return staging + static_cast<std::uint32_t>((row * kPieces + (piece ^ (row & 7))) * 16);
  };
#pragma unroll
  for (int n = 0; n < kPieces; ++n) {
    store_shared(at(g, n) + static_cast<std::uint32_t>((lane & 3) * 4), pack_bf16(acc[n][0], acc[n][1]));
    store_shared(at(g + 8, n) + static_cast<std::uint32_t>((lane & 3) * 4), pack_bf16(acc[n][2], acc[n][3]));
  }
  __syncwarp();
#pragma unroll
  for (int i = lane; i < 16 * kPieces; i += 32) {
    const int row = i / kPieces;
    const int piece = i % kPieces;
    if (warp * 16 + row < rows) {
      *reinterpret_cast<uint4*>(static_cast<char*>(to) + ((warp * 16 + row) * row_stride + piece * 8) * 2) =
          load_shared_16(at(row, piece));
    }
  }
}

template <int kSize, bool kWgmma>
__device__ void chunk_gradients(const GradientsParams& p, char* memory) {
  using Shared = GradientsShared<kSize>;
  constexpr int kSteps = kSize / 16;
  constexpr int kBlocks = kSize / 8;
  const int head = static_cast<int>(blockIdx.x % static_cast<unsigned>(p.in.shape.heads));
  const auto slot = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(p.in.shape.heads));
  const int sequence = sequence_of_slot(p.in.offsets, p.in.shape.sequences, slot, kGatedDeltaChunk);
  const auto range = sequence_range(p.in.offsets, sequence);
  const int c = static_cast<int>(slot - range.first_slot);
  if (c >= range.chunks) {
    return;
  }
  const int key_head = head / (p.in.shape.heads / p.in.shape.key_heads);
  const auto heads = static_cast<std::int64_t>(p.in.shape.heads);
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread / 128;
  const int warp = thread / 32 % 4;
  const int lane = thread % 32;
  const unsigned t = threadIdx.x % 4;
  const int row = warp * 16 + (lane >> 2);
  const int rows = range.length - c * 64 < 64 ? range.length - c * 64 : 64;
  const auto first_row = range.first_row + c * 64;
  const auto tile_index = slot * heads + head;

  const auto base = (shared_address(memory) + 1023U) & ~1023U;
  auto* aligned = memory + (base - shared_address(memory));
  const auto at = [&](int offset) { return base + static_cast<std::uint32_t>(offset); };
  auto& gates = *reinterpret_cast<ChunkGates*>(aligned + Shared::kGates);
  auto& sums = *reinterpret_cast<ChunkSums*>(aligned + Shared::kSums);
  const auto gates_at = at(Shared::kGates);

  // Two groups of copies: what U needs, then the rest.
  load_tiles<kSize, 256>(at(Shared::kK), head_rows(p.in.k, first_row, key_head), p.in.k.row_stride, rows, thread);
  load_tiles<kSize, 256>(at(Shared::kV), head_rows(p.in.v, first_row, head), p.in.v.row_stride, rows, thread);
  load_tiles<kSize, 256>(at(Shared::kDV), head_rows(p.dv, first_row, head), p.dv.row_stride, rows, thread);
  const auto load_state = [&](int to, const void* from) {
    const auto* source = static_cast<const char*>(from) + tile_index * Shared::kState;
#pragma unroll
    for (int i = 0; i < kSize / 64; ++i) {
      load_tiles<kSize, 256>(at(to + i * Shared::kRows), source + i * Shared::kRows, kSize, 64, thread);
    }
  };
  load_state(Shared::kS, p.states);
  asm volatile("cp.async.commit_group;" ::: "memory");
  load_tiles<kSize, 256>(at(Shared::kQ), head_rows(p.in.q, first_row, key_head), p.in.q.row_stride, rows, thread);
  load_tiles<kSize, 256>(at(Shared::kDO), head_rows(p.d_output, first_row, head), p.d_output.row_stride, rows, thread);
  load_state(Shared::kDS, p.d_states);
  asm volatile("cp.async.commit_group;" ::: "memory");
  if (thread < 32) {
    write_gates(gates, read_gates(p.in.g + first_row * heads + head, p.in.beta + first_row * heads + head, heads, rows));
  }
  std::uint32_t inverse[8][2];  // warpgroup 0: what becomes R
  if (group == 0) {
    const auto* from = static_cast<const std::uint32_t*>(p.inverse) + tile_index * 2048 + row * 32 + static_cast<int>(t);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      inverse[n][0] = __ldg(from + n * 4);
      inverse[n][1] = __ldg(from + n * 4 + 8 * 32);
    }
  }
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  fence_for_wgmma();
  __syncthreads();

  const auto totals = row_totals(gates_at, row);
  const float gamma_low = gates.gamma[row];
  const float gamma_high = gates.gamma[row + 8];
  const float beta_low = fmaxf(gates.beta[row], kSmallestBeta);
  const float beta_high = fmaxf(gates.beta[row + 8], kSmallestBeta);

  // U: its columns [64 group, 64 group + 64).
  const auto v_tile = at(Shared::kV) + static_cast<std::uint32_t>(group * kTileBytes);
  const bool has_columns = group < kSize / 64;
  float w[8][4];
  if (has_columns) {
    begin_products<kWgmma>();
    multiply_tiles<kWgmma, 8, false, kSteps, true>(w, at(Shared::kK), at(Shared::kS + group * Shared::kRows), warp);
    end_products<kWgmma>();
  }
  if (group == 0) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const auto& x = inverse[n];
      store_lower<true>(at(Shared::kR), row, n, decays(gates_at, totals, n),
                        {low_bf16(x[0]), high_bf16(x[0]), low_bf16(x[1]), high_bf16(x[1])});
    }
  }
  if (has_columns) {
    wait_products<kWgmma, 0>();
    pin(w);
    const auto dv_tile = at(Shared::kDV) + static_cast<std::uint32_t>(group * kTileBytes);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const auto low = load_shared(tile_address(v_tile, row, n) + 4 * t);
      const auto high = load_shared(tile_address(v_tile, row + 8, n) + 4 * t);
      w[n][0] = low_bf16(low) - gamma_low * w[n][0];
      w[n][1] = high_bf16(low) - gamma_low * w[n][1];
      w[n][2] = low_bf16(high) - gamma_high * w[n][2];
      w[n][3] = high_bf16(high) - gamma_high * w[n][3];
    }
    const auto dots = row_dots(w, dv_tile, row);
    if (t == 0) {
      sums.dv_w[group][row] = dots.x;
      sums.dv_w[group][row + 8] = dots.y;
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      w[n][0] *= beta_low;
      w[n][1] *= beta_low;
      w[n][2] *= beta_high;
      w[n][3] *= beta_high;
      store_block(v_tile, row, n, {{w[n][0], w[n][1], w[n][2], w[n][3]}});
    }
  }
  fence_for_wgmma();
  __syncthreads();
  if (has_columns) {
    begin_products<kWgmma>();
    multiply_tiles<kWgmma, 8, true, 4, false>(w, at(Shared::kR), v_tile, warp);
    end_products<kWgmma>();
    wait_products<kWgmma, 0>();
    pin(w);
    named_barrier(1 + group, 128);  // the whole warpgroup has read beta W
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      store_block(v_tile, row, n, {{w[n][0], w[n][1], w[n][2], w[n][3]}});
    }
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  fence_for_wgmma();
  __syncthreads();

  const auto u_tile = at(Shared::kV);
  float z[8][4];
  std::uint32_t operand[4][4];  // M or dN + dN^T
  if (group == 0) {
    float qk[8][4];
    begin_products<kWgmma>();
    multiply_tiles<kWgmma, 8, false, kSteps, true>(qk, at(Shared::kQ), at(Shared::kK), warp);
    multiply_tiles<kWgmma, 8, false, kSteps, true>(z, at(Shared::kDO), u_tile, warp);
    end_products<kWgmma>();
    wait_products<kWgmma, 0>();
    pin(qk);
    pin(z);
    float row_low = 0.0F;
    float row_high = 0.0F;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      auto e = decays(gates_at, totals, n);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        e.x[i] *= p.in.scale;
      }
      const auto m = lower<false>(row, n, e, {{z[n][0], z[n][1], z[n][2], z[n][3]}});
      store_block(at(Shared::kM), row, n, m);
      operand[n / 2][(n & 1) * 2] = pack_bf16(m.x[0], m.x[1]);
      operand[n / 2][(n & 1) * 2 + 1] = pack_bf16(m.x[2], m.x[3]);
      const auto strict = lower<true>(row, n, {{qk[n][0], qk[n][1], qk[n][2], qk[n][3]}}, m);  // dP * P below the diagonal
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        z[n][i] = strict.x[i];
      }
      row_low += z[n][0] + z[n][1];
      row_high += z[n][2] + z[n][3];
    }
    column_sums(z, sums.column[0][warp]);
    row_low = sum_quad(row_low);
    row_high = sum_quad(row_high);
    if (t == 0) {
      sums.row[0][row] = row_low;
      sums.row[0][row + 8] = row_high;
    }
  } else {
    float kk[8][4];
    begin_products<kWgmma>();
    multiply_tiles<kWgmma, 8, false, kSteps, true>(kk, at(Shared::kK), at(Shared::kK), warp);
    multiply_tiles<kWgmma, 8, false, kSteps, true>(z, at(Shared::kDV), u_tile, warp);
    end_products<kWgmma>();
    wait_products<kWgmma, 0>();
    pin(kk);
    pin(z);
    float row_low = 0.0F;
    float row_high = 0.0F;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const auto dn = lower<true>(row, n, decays(gates_at, totals, n), {{-z[n][0], -z[n][1], -z[n][2], -z[n][3]}});
      store_block(at(Shared::kR), row, n, dn);
      operand[n / 2][(n & 1) * 2] = pack_bf16(dn.x[0], dn.x[1]);
      operand[n / 2][(n & 1) * 2 + 1] = pack_bf16(dn.x[2], dn.x[3]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        z[n][i] = dn.x[i] * kk[n][i];
      }
      row_low += z[n][0] + z[n][1];
      row_high += z[n][2] + z[n][3];
    }
    column_sums(z, sums.column[1][warp]);
    row_low = sum_quad(row_low);
    row_high = sum_quad(row_high);
    if (t == 0) {
      sums.row[1][row] = row_low;
      sums.row[1][row + 8] = row_high;
      auto* d_beta = p.d_beta + first_row * heads + head;
      const auto dv_w = [&](int i) { return kSize == 64 ? sums.dv_w[0][i] : sums.dv_w[0][i] + sums.dv_w[1][i]; };
      if (row < rows) {
        d_beta[row * heads] = (dv_w(row) + row_low) / beta_low;
      }
      if (row + 8 < rows) {
        d_beta[(row + 8) * heads] = (dv_w(row + 8) + row_high) / beta_high;
      }
    }
  }
  fence_for_wgmma();
  __syncthreads();

  const auto staging =
      at(Shared::kStaging) + static_cast<std::uint32_t>((group * 4 + warp) * Shared::kStagingWarp);
  float acc[kBlocks][4];
  if (group == 0) {
    begin_products<kWgmma>();
    multiply_tiles<kWgmma, kBlocks, true, kSteps, true>(acc, at(Shared::kDO), at(Shared::kS), warp, Shared::kRows);
    end_products<kWgmma>();
    float product = 0.0F;  // <dS', S>
#pragma unroll 4
    for (int i = thread * 16; i < Shared::kState; i += 128 * 16) {
      const auto a = load_shared_16(at(Shared::kS + i));
      const auto b = load_shared_16(at(Shared::kDS + i));
      product += low_bf16(a.x) * low_bf16(b.x) + high_bf16(a.x) * high_bf16(b.x) + low_bf16(a.y) * low_bf16(b.y) +
                 high_bf16(a.y) * high_bf16(b.y) + low_bf16(a.z) * low_bf16(b.z) + high_bf16(a.z) * high_bf16(b.z) +
                 low_bf16(a.w) * low_bf16(b.w) + high_bf16(a.w) * high_bf16(b.w);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      product += __shfl_xor_sync(0xffffffffU, product, step);
    }
    if (lane == 0) {
      sums.product[warp] = product;
    }
    wait_products<kWgmma, 0>();
    pin(acc);
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      acc[n][0] *= p.in.scale * gamma_low;
      acc[n][1] *= p.in.scale * gamma_low;
      acc[n][2] *= p.in.scale * gamma_high;
      acc[n][3] *= p.in.scale * gamma_high;
    }
    const auto dots = row_dots(acc, at(Shared::kQ), row);
    if (t == 0) {
      sums.row[0][row] += dots.x;
      sums.row[0][row + 8] += dots.y;
    }
    begin_products<kWgmma>();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      multiply<kWgmma, kBlocks, 0, true, false>(acc, operand[step], at(Shared::kK), step);
    }
    end_products<kWgmma>();
    wait_products<kWgmma, 0>();
    pin(acc);
    write_rows<kSize>(acc, static_cast<char*>(p.dq.data) + (first_row * p.dq.row_stride + head * p.dq.head_stride) * 2,
                      p.dq.row_stride, rows, staging, warp);
  } else {
    float before[kBlocks][4];
    begin_products<kWgmma>();
    multiply_tiles<kWgmma, kBlocks, true, kSteps, true>(acc, u_tile, at(Shared::kDS), warp, Shared::kRows);
    multiply_tiles<kWgmma, kBlocks, true, kSteps, true>(before, at(Shared::kDV), at(Shared::kS), warp, Shared::kRows);
    end_products<kWgmma>();
    std::uint32_t mt[4][4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      load_operand_transposed(mt[step], at(Shared::kM), warp, step);
      std::uint32_t transposed[4];
      load_operand_transposed(transposed, at(Shared::kR), warp, step);
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // one of the two is zero
        operand[step][i] = add_bf16(operand[step][i], transposed[i]);
      }
    }
    wait_products<kWgmma, 0>();
    pin(acc);
    pin(before);
    const float rest_low = gates.rest[row];
    const float rest_high = gates.rest[row + 8];
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      acc[n][0] *= rest_low;
      acc[n][1] *= rest_low;
      acc[n][2] *= rest_high;
      acc[n][3] *= rest_high;
      before[n][0] *= -gamma_low;
      before[n][1] *= -gamma_low;
      before[n][2] *= -gamma_high;
      before[n][3] *= -gamma_high;
    }
    const auto after_dots = row_dots(acc, at(Shared::kK), row);
    const auto before_dots = row_dots(before, at(Shared::kK), row);
    float after = t == 0 ? after_dots.x + after_dots.y : 0.0F;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      after += __shfl_xor_sync(0xffffffffU, after, step);
    }
    if (lane == 0) {
      sums.after[warp] = after;
    }
    if (t == 0) {
      sums.row[1][row] += before_dots.x - after_dots.x;
      sums.row[1][row + 8] += before_dots.y - after_dots.y;
    }
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        acc[n][i] += before[n][i];
      }
    }
    begin_products<kWgmma>();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      multiply<kWgmma, kBlocks, 0, true, false>(acc, mt[step], at(Shared::kQ), step);
    }
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      multiply<kWgmma, kBlocks, 0, true, false>(acc, operand[step], at(Shared::kK), step);
    }
    end_products<kWgmma>();
    wait_products<kWgmma, 0>();
    pin(acc);
    write_rows<kSize>(acc, static_cast<char*>(p.dk.data) + (first_row * p.dk.row_stride + head * p.dk.head_stride) * 2,
                      p.dk.row_stride, rows, staging, warp);
  }
  __syncthreads();
  if (thread < 32) {  // dG, then its reverse cumulative sum: lane l holds rows 2l, 2l + 1
    float d[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = 2 * lane + i;
      d[i] = sums.row[0][r] + sums.row[1][r];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        d[i] -= sums.column[0][j][r] + sums.column[1][j][r];
      }
    }
    if (lane == 31) {
      d[1] += sums.after[0] + sums.after[1] + sums.after[2] + sums.after[3] +
              gates.gamma[63] * (sums.product[0] + sums.product[1] + sums.product[2] + sums.product[3]);
    }
    float suffix = d[0] + d[1];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float behind = __shfl_down_sync(0xffffffffU, suffix, step);
      suffix += lane + step < 32 ? behind : 0.0F;
    }
    auto* dg = p.dg + first_row * heads + head;
    if (2 * lane < rows) {
      dg[2 * lane * heads] = suffix;
    }
    if (2 * lane + 1 < rows) {
      dg[(2 * lane + 1) * heads] = suffix - d[0];
    }
  }
}

}  // namespace hydra::kernels
