// The recurrence of params.h row by row in fp32: a block takes one sequence, one head and 32 columns of V, whose states
// are independent of each other, and keeps its part of the state in registers from the first row to the last. With
//   w_t = v_t - exp(g_t) S_{t-1}^T k_t,  u_t = beta_t w_t
// it gives the forward pass's outputs, or w and the states at chunk starts, which the backward pass reads.
#include "kernels/gated_delta/portable.cuh"

namespace hydra::kernels::portable {
namespace {

template <class T, int kKeys>
__global__ void __launch_bounds__(kKeys) scan_kernel(const GatedDeltaInput in, const ScanOutputs out) {
  __shared__ __align__(16) float keys[kStaged][kKeys];
  __shared__ __align__(16) float queries[kStaged][kKeys];
  __shared__ float values[kStaged][kColumns];
  __shared__ float decay[kStaged], betas[kStaged];

  constexpr int kParts = kKeys / kPart;
  const GatedDeltaShape& shape = in.shape;
  const int s = static_cast<int>(blockIdx.x) / shape.heads;
  const int head = static_cast<int>(blockIdx.x) % shape.heads;
  const int key_head = head / (shape.heads / shape.key_heads);
  const int column = static_cast<int>(threadIdx.x) / kParts;
  const int part = static_cast<int>(threadIdx.x) % kParts;
  const int first_column = static_cast<int>(blockIdx.y) * kColumns;
  const int value = first_column + column;
  const bool owns = value < shape.value_size;
  const std::int64_t begin = in.offsets[s];
  const std::int64_t end = in.offsets[s + 1];
  const auto state_row = [&](auto* states, std::int64_t index) {
    return states + ((index * shape.heads + head) * shape.value_size + value) * shape.key_size;
  };

  float state[kPart];
  load_part<kKeys>(state, in.initial_state != nullptr && owns ? state_row(in.initial_state, s) : nullptr,
                   shape.key_size, part);
  for (std::int64_t row = begin; row < end; row += kStaged) {
    const int count = end - row < kStaged ? static_cast<int>(end - row) : kStaged;
    __syncthreads();
    stage_rows<T, kKeys>(keys, in.k, row, count, key_head, 0, shape.key_size);
    if (out.output.data != nullptr) {
      stage_rows<T, kKeys>(queries, in.q, row, count, key_head, 0, shape.key_size);
    }
    stage_rows<T, kKeys>(values, in.v, row, count, head, first_column, shape.value_size);
    if (threadIdx.x < count) {
      decay[threadIdx.x] = expf(in.g[(row + threadIdx.x) * shape.heads + head]);
      betas[threadIdx.x] = in.beta[(row + threadIdx.x) * shape.heads + head];
    }
    __syncthreads();
    for (int r = 0; r < count; ++r) {
      if (out.states != nullptr && owns && (row + r - begin) % kGatedDeltaChunk == 0) {
        store_part<kKeys>(state, state_row(out.states, slot_of(begin, s, row + r)), shape.key_size, part);
      }
      const auto* k = reinterpret_cast<const float4*>(keys[r]);
      const auto* q = reinterpret_cast<const float4*>(queries[r]);
      const float a = decay[r];
      float seen = 0.0F;
#pragma unroll
      for (int m = 0; m < kPart / 4; ++m) {
        const float4 x = k[part + kParts * m];
        seen += (state[4 * m] *= a) * x.x;
        seen += (state[4 * m + 1] *= a) * x.y;
        seen += (state[4 * m + 2] *= a) * x.z;
        seen += (state[4 * m + 3] *= a) * x.w;
      }
      const float w = values[r][column] - sum_parts<kKeys>(seen);
      const float u = betas[r] * w;
      float o = 0.0F;
#pragma unroll
      for (int m = 0; m < kPart / 4; ++m) {
        const float4 x = k[part + kParts * m];
        state[4 * m] += x.x * u;
        state[4 * m + 1] += x.y * u;
        state[4 * m + 2] += x.z * u;
        state[4 * m + 3] += x.w * u;
      }
      if (out.output.data != nullptr) {
#pragma unroll
        for (int m = 0; m < kPart / 4; ++m) {
          const float4 x = q[part + kParts * m];
          o += state[4 * m] * x.x + state[4 * m + 1] * x.y + state[4 * m + 2] * x.z + state[4 * m + 3] * x.w;
        }
        o = in.scale * sum_parts<kKeys>(o);
      }
      if (part == 0 && owns) {
        if (out.output.data != nullptr) {
          row_of<T>(out.output, row + r, head)[value] = from_float<T>(o);
        }
        if (out.w != nullptr) {
          out.w[((row + r) * shape.heads + head) * shape.value_size + value] = w;
        }
      }
    }
  }
  if (out.final_state != nullptr && owns) {
    store_part<kKeys>(state, state_row(out.final_state, s), shape.key_size, part);
  }
}

template <class T>
cudaError_t launch_typed(const GatedDeltaInput& in, const ScanOutputs& out, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(in.shape.sequences) * static_cast<unsigned>(in.shape.heads),
                  static_cast<unsigned>(column_tiles(in.shape)));
  if (in.shape.key_size <= 64) {
    scan_kernel<T, 64><<<grid, 64, 0, stream>>>(in, out);
  } else if (in.shape.key_size <= 128) {
    scan_kernel<T, 128><<<grid, 128, 0, stream>>>(in, out);
  } else {
    scan_kernel<T, 256><<<grid, 256, 0, stream>>>(in, out);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_scan(const GatedDeltaInput& in, const ScanOutputs& out, cudaStream_t stream) {
  return in.element == Element::bf16 ? launch_typed<__nv_bfloat16>(in, out, stream)
                                     : launch_typed<float>(in, out, stream);
}

}  // namespace hydra::kernels::portable
