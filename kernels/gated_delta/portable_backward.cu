// Gradients of the recurrence of params.h in fp32, in three launches:
//   1. the forward scan again: w_t and the state S at the start of each chunk (portable_forward.cu);
//   2. the reverse scan, which needs no state, row by row with dS in registers:
//        dS += s q dO^T;  du = dS^T k;  dbeta = du.w;  dv = beta du;  dS <- exp(g) (dS - k dv^T)
//      it gives dv, dbeta (a part for each 32 columns of V) and dS' after each chunk;
//   3. a block a chunk and head, which forms dq, dk and dg from S, dS', U = beta w and dV (kernels.md section 1).
// No product is solved for or divided by beta. Scratch: S and dS' of every chunk, w and dv of every row, all fp32:
// (K V / 32 + 2 V + V / 32) 4 bytes a row and head, 3.1 KB at K = V = 128.
#include "kernels/gated_delta/portable.cuh"

namespace hydra::kernels::portable {
namespace {

// The scratch memory of a backward pass.
struct Scratch {
  float* states = nullptr;    // [slots, H, V, K] S at the chunk's start
  float* d_states = nullptr;  // [slots, H, V, K] dS' after the chunk
  float* w = nullptr;         // [N, H, V]
  float* dv = nullptr;        // [N, H, V]
  float* d_beta = nullptr;    // [tiles, N, H]
};

std::size_t scratch_floats(const GatedDeltaShape& shape, Scratch* scratch, float* base) {
  const auto state = static_cast<std::size_t>(shape.slots()) * shape.heads * shape.value_size * shape.key_size;
  const auto rows = static_cast<std::size_t>(shape.rows) * shape.heads;
  const auto values = rows * shape.value_size;
  if (scratch != nullptr) {
    *scratch = {base, base + state, base + 2 * state, base + 2 * state + values, base + 2 * (state + values)};
  }
  return 2 * (state + values) + rows * column_tiles(shape);
}

template <class T, int kKeys>
__global__ void __launch_bounds__(kKeys) reverse_scan_kernel(const GatedDeltaBackward p, const Scratch scratch) {
  __shared__ __align__(16) float keys[kStaged][kKeys];
  __shared__ __align__(16) float queries[kStaged][kKeys];
  __shared__ float d_outputs[kStaged][kColumns], ws[kStaged][kColumns];
  __shared__ float decay[kStaged], betas[kStaged], d_betas[kKeys / 32][kStaged];

  constexpr int kParts = kKeys / kPart;
  const GatedDeltaShape& shape = p.in.shape;
  const int s = static_cast<int>(blockIdx.x) / shape.heads;
  const int head = static_cast<int>(blockIdx.x) % shape.heads;
  const int key_head = head / (shape.heads / shape.key_heads);
  const int column = static_cast<int>(threadIdx.x) / kParts;
  const int part = static_cast<int>(threadIdx.x) % kParts;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first_column = static_cast<int>(blockIdx.y) * kColumns;
  const int value = first_column + column;
  const bool owns = value < shape.value_size;
  const std::int64_t begin = p.in.offsets[s];
  const std::int64_t end = p.in.offsets[s + 1];
  const ConstHeadRows w_rows{scratch.w, std::int64_t{shape.heads} * shape.value_size, shape.value_size};
  const auto state_row = [&](auto* states, std::int64_t index) {
    return states + ((index * shape.heads + head) * shape.value_size + value) * shape.key_size;
  };

  float d_state[kPart];
  load_part<kKeys>(d_state, p.d_final_state != nullptr && owns ? state_row(p.d_final_state, s) : nullptr,
                   shape.key_size, part);
  for (std::int64_t blocks = (end - begin + kStaged - 1) / kStaged; blocks-- > 0;) {
    const std::int64_t row = begin + blocks * kStaged;
    const int count = end - row < kStaged ? static_cast<int>(end - row) : kStaged;
    __syncthreads();
    stage_rows<T, kKeys>(keys, p.in.k, row, count, key_head, 0, shape.key_size);
    stage_rows<T, kKeys>(queries, p.in.q, row, count, key_head, 0, shape.key_size);
    stage_rows<T, kKeys>(d_outputs, p.d_output, row, count, head, first_column, shape.value_size);
    stage_rows<float, kKeys>(ws, w_rows, row, count, head, first_column, shape.value_size);
    if (threadIdx.x < count) {
      decay[threadIdx.x] = expf(p.in.g[(row + threadIdx.x) * shape.heads + head]);
      betas[threadIdx.x] = p.in.beta[(row + threadIdx.x) * shape.heads + head];
    }
    __syncthreads();
    for (int r = count; r-- > 0;) {
      const std::int64_t t = row + r;
      if (owns && (t + 1 == end || (t + 1 - begin) % kGatedDeltaChunk == 0)) {
        store_part<kKeys>(d_state, state_row(scratch.d_states, slot_of(begin, s, t)), shape.key_size, part);
      }
      const auto* k = reinterpret_cast<const float4*>(keys[r]);
      const auto* q = reinterpret_cast<const float4*>(queries[r]);
      const float d_o = p.in.scale * d_outputs[r][column];
      float du = 0.0F;
#pragma unroll
      for (int m = 0; m < kPart / 4; ++m) {
        const float4 x = q[part + kParts * m];
        const float4 y = k[part + kParts * m];
        du += (d_state[4 * m] += x.x * d_o) * y.x;
        du += (d_state[4 * m + 1] += x.y * d_o) * y.y;
        du += (d_state[4 * m + 2] += x.z * d_o) * y.z;
        du += (d_state[4 * m + 3] += x.w * d_o) * y.w;
      }
      du = sum_parts<kKeys>(du);
      const float dv = betas[r] * du;
      const float a = decay[r];
#pragma unroll
      for (int m = 0; m < kPart / 4; ++m) {
        const float4 y = k[part + kParts * m];
        d_state[4 * m] = a * (d_state[4 * m] - y.x * dv);
        d_state[4 * m + 1] = a * (d_state[4 * m + 1] - y.y * dv);
        d_state[4 * m + 2] = a * (d_state[4 * m + 2] - y.z * dv);
        d_state[4 * m + 3] = a * (d_state[4 * m + 3] - y.w * dv);
      }
      if (part == 0 && owns) {
        row_of<T>(p.dv, t, head)[value] = from_float<T>(dv);
        scratch.dv[(t * shape.heads + head) * shape.value_size + value] = dv;
      }
      float d_beta = du * ws[r][column];  // the same in all parts of a column
      for (int offset = kParts; offset < 32; offset *= 2) {
        d_beta += __shfl_xor_sync(0xffffffffU, d_beta, offset);
      }
      if (threadIdx.x % 32 == 0) {
        d_betas[warp][r] = d_beta;
      }
    }
    __syncthreads();
    if (threadIdx.x < count) {
      float d_beta = 0.0F;
      for (int i = 0; i < kKeys / 32; ++i) {
        d_beta += d_betas[i][threadIdx.x];
      }
      scratch.d_beta[(blockIdx.y * shape.rows + row + threadIdx.x) * shape.heads + head] = d_beta;
    }
  }
  if (p.d_initial_state != nullptr && owns) {
    store_part<kKeys>(d_state, state_row(p.d_initial_state, s), shape.key_size, part);
  }
}

constexpr int kGradientThreads = 256;  // thread (ty, tx) = (t / 16, t % 16) has rows ty + 16 i and columns tx + 16 j
constexpr int kDepth = 32;             // rows or columns that a product loads at a time
constexpr int kC = kGatedDeltaChunk;

// Shared memory of the gradient kernel. Rows are padded against bank conflicts.
struct GradientShared {
  float m[kC][kC + 1];  // s Gamma * lower(dO U^T)
  float n[kC][kC + 1];  // dN = -Gamma * strict_lower(dV U^T)
  union {
    struct {
      float a[kC][kDepth + 1], b[kC][kDepth + 1], c[kC][kDepth + 1];  // operands by row
      float s[kDepth][kC], d_s[kDepth][kC];                           // S and dS', V by K
    } product;
    struct {
      float q[kC][kC + 1], k[kC][kC + 1];
    } tile;
    float z[kC][kC + 1];
    float partial[2][kC][16];
  };
  double total[kC];  // G, in double: differences of large sums must keep small log decays
  float decay[kC], rest[kC], beta[kC];
  // Parts of dg: see the end of the kernel.
  float between[kC], start[kC], end[kC], whole[kGradientThreads];
};

using Tile = float[4][4];

// x[row][0 .. kWidth) = source(row) [first ..), zeros beyond `limit` columns or the chunk's rows.
template <class T, int kWidth, int kStride>
__device__ void load_tile(float (&x)[kC][kStride], const ConstHeadRows& source, const Chunk& chunk, int head, int first,
                          int limit) {
  for (int i = static_cast<int>(threadIdx.x); i < kC * kWidth; i += kGradientThreads) {
    const int row = i / kWidth;
    const int column = first + i % kWidth;
    x[row][i % kWidth] =
        row < chunk.rows && column < limit ? to_float(row_of<T>(source, chunk.begin + row, head)[column]) : 0.0F;
  }
}

// sum += A B^T; the second form takes B as [depth, column].
__device__ void multiply(Tile& sum, const float (&a)[kC][kDepth + 1], const float (&b)[kC][kDepth + 1]) {
  const int ty = static_cast<int>(threadIdx.x) / 16;
  const int tx = static_cast<int>(threadIdx.x) % 16;
#pragma unroll 8
  for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum[i][j] += a[ty + 16 * i][depth] * b[tx + 16 * j][depth];
      }
    }
  }
}
__device__ void multiply(Tile& sum, const float (&a)[kC][kDepth + 1], const float (&b)[kDepth][kC]) {
  const int ty = static_cast<int>(threadIdx.x) / 16;
  const int tx = static_cast<int>(threadIdx.x) % 16;
#pragma unroll 8
  for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum[i][j] += a[ty + 16 * i][depth] * b[depth][tx + 16 * j];
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kGradientThreads) gradient_kernel(const GatedDeltaBackward p, const Scratch scratch) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& sm = *reinterpret_cast<GradientShared*>(shared_bytes);
  const GatedDeltaShape& shape = p.in.shape;
  const std::int64_t slot = blockIdx.x / shape.heads;
  const int head = static_cast<int>(blockIdx.x % shape.heads);
  const int key_head = head / (shape.heads / shape.key_heads);
  const Chunk chunk = chunk_of(p.in.offsets, shape.sequences, slot);
  if (chunk.rows == 0) {
    return;
  }
  const int thread = static_cast<int>(threadIdx.x);
  const int ty = thread / 16;
  const int tx = thread % 16;
  const ConstHeadRows w_rows{scratch.w, std::int64_t{shape.heads} * shape.value_size, shape.value_size};
  const ConstHeadRows dv_rows{scratch.dv, w_rows.row_stride, w_rows.head_stride};
  const std::int64_t state_offset = (slot * shape.heads + head) * shape.value_size * shape.key_size;

  // G and the factors made of it; beta; dbeta, whose parts for each tile of V are added in order.
  if (thread < kC) {
    const std::int64_t at = (chunk.begin + thread) * shape.heads + head;
    const bool owns = thread < chunk.rows;
    sm.total[thread] = owns ? p.in.g[at] : 0.0;
    sm.beta[thread] = owns ? p.in.beta[at] : 0.0F;
    if (owns) {
      float d_beta = 0.0F;
      for (int tile = 0; tile < (shape.value_size + kColumns - 1) / kColumns; ++tile) {
        d_beta += scratch.d_beta[tile * shape.rows * shape.heads + at];
      }
      p.d_beta[at] = d_beta;
    }
  }
  __syncthreads();
  if (thread == 0) {
    for (int i = 1; i < kC; ++i) {
      sm.total[i] += sm.total[i - 1];
    }
  }
  __syncthreads();
  if (thread < kC) {
    sm.decay[thread] = expf(static_cast<float>(sm.total[thread]));
    sm.rest[thread] = expf(static_cast<float>(sm.total[kC - 1] - sm.total[thread]));
  }

  // dO, U = beta w and dV as operands a, b and c.
  const auto load_values = [&](int first) {
    load_tile<T, kDepth>(sm.product.a, p.d_output, chunk, head, first, shape.value_size);
    load_tile<float, kDepth>(sm.product.b, w_rows, chunk, head, first, shape.value_size);
    load_tile<float, kDepth>(sm.product.c, dv_rows, chunk, head, first, shape.value_size);
    for (int i = thread; i < kC * kDepth; i += kGradientThreads) {  // what this thread loaded
      sm.product.b[i / kDepth][i % kDepth] *= sm.beta[i / kDepth];
    }
  };
  Tile d_p{}, d_x{}, qk{}, kk{};
  for (int first = 0; first < shape.value_size; first += kDepth) {
    __syncthreads();
    load_values(first);
    __syncthreads();
    multiply(d_p, sm.product.a, sm.product.b);
    multiply(d_x, sm.product.c, sm.product.b);
  }
  for (int first = 0; first < shape.key_size; first += kDepth) {
    __syncthreads();
    load_tile<T, kDepth>(sm.product.a, p.in.q, chunk, key_head, first, shape.key_size);
    load_tile<T, kDepth>(sm.product.b, p.in.k, chunk, key_head, first, shape.key_size);
    __syncthreads();
    multiply(qk, sm.product.a, sm.product.b);
    multiply(kk, sm.product.b, sm.product.b);
  }
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int row = ty + 16 * i;
      const int column = tx + 16 * j;
      const float mask = row >= column ? expf(static_cast<float>(sm.total[row] - sm.total[column])) : 0.0F;
      const float m = p.in.scale * mask * d_p[i][j];
      const float n = row > column ? -mask * d_x[i][j] : 0.0F;
      sm.m[row][column] = m;
      sm.n[row][column] = n;
      sm.z[row][column] = row > column ? m * qk[i][j] + n * kk[i][j] : 0.0F;
    }
  }
  __syncthreads();
  if (thread < kC) {
    float before = 0.0F;
    for (int i = 0; i < kC; ++i) {  // z[row][t] <- sum of z[row][j], j < t
      const float z = sm.z[thread][i];
      sm.z[thread][i] = before;
      before += z;
    }
  }
  __syncthreads();
  if (thread < kC) {
    float sum = 0.0F;
    for (int i = thread; i < kC; ++i) {
      sum += sm.z[i][thread];
    }
    sm.between[thread] = sum;
    sm.start[thread] = 0.0F;
    sm.end[thread] = 0.0F;
  }

  float whole = 0.0F;
  for (int tile = 0; tile < shape.key_size; tile += kC) {
    Tile d_q{}, d_k{}, d_k_end{};  // s gamma (dO S^T), -gamma (dV S^T), rest (U dS'^T)
    for (int first = 0; first < shape.value_size; first += kDepth) {
      __syncthreads();
      load_values(first);
      for (int i = thread; i < kDepth * kC; i += kGradientThreads) {
        const int value = first + i / kC;
        const int key = tile + i % kC;
        const bool inside = value < shape.value_size && key < shape.key_size;
        const std::int64_t at = state_offset + std::int64_t{value} * shape.key_size + key;
        const float state = inside ? scratch.states[at] : 0.0F;
        const float d_state = inside ? scratch.d_states[at] : 0.0F;
        sm.product.s[i / kC][i % kC] = state;
        sm.product.d_s[i / kC][i % kC] = d_state;
        whole += sm.decay[kC - 1] * state * d_state;
      }
      __syncthreads();
      multiply(d_q, sm.product.a, sm.product.s);
      multiply(d_k, sm.product.c, sm.product.s);
      multiply(d_k_end, sm.product.b, sm.product.d_s);
    }
    __syncthreads();
    load_tile<T, kC>(sm.tile.q, p.in.q, chunk, key_head, tile, shape.key_size);
    load_tile<T, kC>(sm.tile.k, p.in.k, chunk, key_head, tile, shape.key_size);
    __syncthreads();
    float start[4], end[4];
    for (int i = 0; i < 4; ++i) {
      const int row = ty + 16 * i;
      start[i] = 0.0F;
      end[i] = 0.0F;
      for (int j = 0; j < 4; ++j) {
        const float q = sm.tile.q[row][tx + 16 * j];
        const float k = sm.tile.k[row][tx + 16 * j];
        d_q[i][j] *= p.in.scale * sm.decay[row];
        d_k[i][j] *= -sm.decay[row];
        d_k_end[i][j] *= sm.rest[row];
        start[i] += q * d_q[i][j] + k * d_k[i][j];
        end[i] += k * d_k_end[i][j];
        d_k[i][j] += d_k_end[i][j];
      }
    }
    for (int depth = 0; depth < kC; ++depth) {
      for (int i = 0; i < 4; ++i) {
        const int row = ty + 16 * i;
        const float m = sm.m[row][depth];
        const float m_transposed = sm.m[depth][row];
        const float n = sm.n[row][depth] + sm.n[depth][row];  // D = dN + dN^T
        for (int j = 0; j < 4; ++j) {
          const float k = sm.tile.k[depth][tx + 16 * j];
          d_q[i][j] += m * k;
          d_k[i][j] += m_transposed * sm.tile.q[depth][tx + 16 * j] + n * k;
        }
      }
    }
    for (int i = 0; i < 4; ++i) {
      const int row = ty + 16 * i;
      for (int j = 0; j < 4; ++j) {
        const int key = tile + tx + 16 * j;
        if (row < chunk.rows && key < shape.key_size) {
          row_of<T>(p.dq, chunk.begin + row, head)[key] = from_float<T>(d_q[i][j]);
          row_of<T>(p.dk, chunk.begin + row, head)[key] = from_float<T>(d_k[i][j]);
        }
      }
    }
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
      sm.partial[0][ty + 16 * i][tx] = start[i];
      sm.partial[1][ty + 16 * i][tx] = end[i];
    }
    __syncthreads();
    if (thread < kC) {
      for (int i = 0; i < 16; ++i) {
        sm.start[thread] += sm.partial[0][thread][i];
        sm.end[thread] += sm.partial[1][thread][i];
      }
    }
  }

  // dg_t = sum of dG_i, i >= t. What cancels in that sum is left out: Z_ij counts if i >= t > j only, and k.dK_(dS'),
  // which dG_C has with the other sign, for rows before t. So dg is exact where a strong decay makes it small.
  sm.whole[thread] = whole;
  __syncthreads();
  if (thread < chunk.rows) {
    float sum = sm.between[thread];
    for (int i = 0; i < chunk.rows; ++i) {
      sum += i < thread ? sm.end[i] : sm.start[i];
    }
    for (int i = 0; i < kGradientThreads; ++i) {
      sum += sm.whole[i];
    }
    p.dg[(chunk.begin + thread) * shape.heads + head] = sum;
  }
}

template <class T>
cudaError_t launch_typed(const GatedDeltaBackward& p, const Scratch& scratch, cudaStream_t stream) {
  const GatedDeltaShape& shape = p.in.shape;
  const dim3 scan_grid(static_cast<unsigned>(shape.sequences) * static_cast<unsigned>(shape.heads),
                       static_cast<unsigned>(column_tiles(shape)));
  if (shape.key_size <= 64) {
    reverse_scan_kernel<T, 64><<<scan_grid, 64, 0, stream>>>(p, scratch);
  } else if (shape.key_size <= 128) {
    reverse_scan_kernel<T, 128><<<scan_grid, 128, 0, stream>>>(p, scratch);
  } else {
    reverse_scan_kernel<T, 256><<<scan_grid, 256, 0, stream>>>(p, scratch);
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    return error;
  }
  constexpr int kBytes = static_cast<int>(sizeof(GradientShared));
  if (const cudaError_t error =
          cudaFuncSetAttribute(gradient_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      error != cudaSuccess) {
    return error;
  }
  const auto blocks = static_cast<unsigned>(shape.slots() * shape.heads);
  gradient_kernel<T><<<blocks, kGradientThreads, kBytes, stream>>>(p, scratch);
  return cudaGetLastError();
}

}  // namespace

bool supports(const GatedDeltaInput& in, int shared_bytes) {
  const GatedDeltaShape& shape = in.shape;
  const auto size_fits = [](int size) { return size > 0 && size % 2 == 0 && size <= 256; };
  return size_fits(shape.key_size) && size_fits(shape.value_size) &&
         shared_bytes >= static_cast<int>(sizeof(GradientShared));
}

std::size_t backward_scratch(const GatedDeltaInput& in) {
  return scratch_floats(in.shape, nullptr, nullptr) * sizeof(float);
}

cudaError_t launch_backward(const GatedDeltaBackward& p, cudaStream_t stream) {
  Scratch scratch;
  scratch_floats(p.in.shape, &scratch, static_cast<float*>(p.scratch));
  ScanOutputs saved;
  saved.states = scratch.states;
  saved.w = scratch.w;
  if (const cudaError_t error = launch_scan(p.in, saved, stream); error != cudaSuccess) {
    return error;
  }
  return p.in.element == Element::bf16 ? launch_typed<__nv_bfloat16>(p, scratch, stream)
                                       : launch_typed<float>(p, scratch, stream);
}

}  // namespace hydra::kernels::portable
