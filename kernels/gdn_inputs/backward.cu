// Gradients of the projections and of the parameters. With y = r x w, z = RoPE(y), r2 = (sum z^2 + 1e-6)^-1/2,
// out = r2 z, e = RoPE^T d_out and s = sum z d_out = sum y e:
//   RoPE^T z = (cos^2 + sin^2) y,   dy = r2 (e - r2^2 s (cos^2 + sin^2) y),   dw = sum over rows of r x dy
//   dx = r (w dy - r x (sum y dy) / d),   sum y dy = sum z dz = 1e-6 r2^3 s
// (the last sum nearly vanishes, because the L2 norm undoes any change of scale; its closed form has no cancellation).
// Without the L2 norm dy = e and sum y dy = s.
// Partial sums of the parameters' gradients, one a block or a thread, are added in a fixed order by a second launch.
#include <cuda_runtime.h>

#include "kernels/column_sum/launch.h"
#include "kernels/gdn_inputs/launch.h"
#include "kernels/gdn_inputs/rows.cuh"

namespace hydra::kernels {
namespace {

template <class T>
constexpr int kResident = sizeof(T) == 2 ? 2 : 1;
template <class T>
constexpr int kDepth = 4 / sizeof(T);  // rows ahead

// Partial sums in the scratch buffer.
struct Partials {
  float* q_norm;  // [q blocks, d]
  float* k_norm;  // [k blocks, d]
  float* gates;   // A_log, dt_bias, b_bias: [3][groups, H]
  std::int64_t groups;
  std::size_t bytes;
};

Partials partials_of(const GdnProjections& in, const GdnInputsGrid& grid, void* scratch) {
  Partials partials;
  partials.groups = std::int64_t{grid.gates} * kHeadRowThreads / in.q_heads;
  partials.q_norm = static_cast<float*>(scratch);
  partials.k_norm = partials.q_norm + std::int64_t{grid.q} * in.size;
  partials.gates = partials.k_norm + std::int64_t{grid.k} * in.size;
  partials.bytes = sizeof(float) *
                   static_cast<std::size_t>(std::int64_t{grid.q + grid.k} * in.size + 3 * partials.groups * in.q_heads);
  return partials;
}

// The block's sum of each channel, over its groups in order.
template <class Row>
__device__ void write_block_sum(const float (&mine)[2 * Row::kHalf], int lane, int d, float* sums) {
  constexpr int groups = kHeadRowThreads / Row::kLanes;
  __shared__ float shared[groups * 2 * Row::kHalf * Row::kLanes];
  float* row = shared + static_cast<int>(threadIdx.x) / Row::kLanes * d;
#pragma unroll
  for (int i = 0; i < 2 * Row::kHalf; ++i) {
    if (Row::holds(i, lane, d)) {
      row[Row::column(i, lane, d)] = mine[i];
    }
  }
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < d; column += kHeadRowThreads) {
    float sum = 0.0F;
    for (int group = 0; group < groups; ++group) {
      sum += shared[group * d + column];
    }
    sums[column] = sum;
  }
}

template <class Row>
__device__ void write_projection_gradient(const GdnProjections& in, const ConstHeadRows& projection,
                                          const Parameter& norm, int heads, const ConstHeadRows& d_output, void* output,
                                          float* d_norm, int block, int blocks) {
  using T = typename Row::Value;
  const int d = in.size;
  const float inverse_size = 1.0F / static_cast<float>(d);
  const RowWalk walk = row_walk<Row::kLanes>(block, blocks, heads, in.rows);
  const auto* source = static_cast<const T*>(projection.data) + walk.offset(projection, walk.head);
  const auto* upstream = static_cast<const T*>(d_output.data) + walk.offset(d_output, walk.head);
  auto* target = static_cast<T*>(output) + (std::int64_t{walk.token} * heads + walk.head) * d;
  const bool has_norm = norm.data != nullptr;
  float weight[2 * Row::kHalf], d_weight[2 * Row::kHalf];
  load_weights<Row>(norm, walk.lane, d, weight);
#pragma unroll
  for (int j = 0; j < 2 * Row::kHalf; ++j) {
    d_weight[j] = 0.0F;
  }
  using Queue = typename Row::template Queue<kDepth<T>>;
  constexpr int depth = kQueueDepth<Row, kDepth<T>>;
  __shared__ typename Queue::Shared shared, d_shared;
  Queue queue(shared), d_queue(d_shared);
  const auto push = [&](int i) {
    if (i < walk.visits) {
      queue.push(i % depth, source, walk.lane, d);
      d_queue.push(i % depth, upstream, walk.lane, d);
    }
    commit_rows();
    source += walk.step(projection);
    upstream += walk.step(d_output);
  };
#pragma unroll
  for (int i = 0; i < depth; ++i) {
    push(i);
  }
#pragma unroll 1
  for (int i = 0; i < walk.steps; ++i) {
    Rotation<Row> rotation;
    rotation.load(in, walk.token + i * walk.stride, i < walk.visits, walk.lane);
    wait_rows<depth - 1>();
    float x[2 * Row::kHalf], dy[2 * Row::kHalf];
    queue.values(i % depth, x);
    d_queue.values(i % depth, dy);
    push(i + depth);
    const float r = row_scale<Row>(x, has_norm, inverse_size, in.norm_eps);
    rotation.apply(dy, -1.0F);  // e
    float square = 0.0F, along = 0.0F;
    float length[Row::kHalf];  // cos^2 + sin^2
#pragma unroll
    for (int j = 0; j < Row::kHalf; ++j) {
      length[j] = rotation.cos[j] * rotation.cos[j] + rotation.sin[j] * rotation.sin[j];
      const float y1 = x[j] * r * weight[j], y2 = x[Row::kHalf + j] * r * weight[Row::kHalf + j];
      square += length[j] * (y1 * y1 + y2 * y2);
      along += y1 * dy[j] + y2 * dy[Row::kHalf + j];
    }
    along = row_sum<Row::kLanes>(along);
    const float r2 = in.l2 ? rsqrtf(row_sum<Row::kLanes>(square) + kL2Eps) : 1.0F;
    const float projected = in.l2 ? along * r2 * r2 * r2 : 0.0F;
    const float radial = in.l2 ? kL2Eps * projected : along;  // sum y dy
    const float shrink = has_norm ? r * r * radial * inverse_size : 0.0F;
    if (i < walk.visits) {  // a group that has made its visits adds nothing to d_weight
#pragma unroll
      for (int j = 0; j < 2 * Row::kHalf; ++j) {
        const float normed = x[j] * r;
        dy[j] = r2 * dy[j] - projected * length[j % Row::kHalf] * (normed * weight[j]);
        d_weight[j] += normed * dy[j];
        dy[j] = r * weight[j] * dy[j] - shrink * x[j];
      }
      Row::store(target, walk.lane, d, dy);
    }
    target += std::int64_t{walk.stride} * (heads * d);
  }
  if (d_norm != nullptr) {
    write_block_sum<Row>(d_weight, walk.lane, d, d_norm + static_cast<std::int64_t>(block) * d);
  }
}

template <class T>
__device__ void write_gate_gradients(const GdnInputsBackward& p, const Partials& partials, int block, int blocks) {
  const GdnProjections& in = p.in;
  const RowWalk walk = row_walk<1>(block, blocks, in.q_heads, in.rows);
  if (!walk.member) {
    return;
  }
  const float rate = -expf(in.A_log[walk.head]);
  const float dt_bias = in.dt_bias[walk.head];
  const float b_bias = parameter_value(in.b_bias, walk.head);
  const auto* a = static_cast<const T*>(in.a.data) + walk.head;
  const auto* b = static_cast<const T*>(in.b.data) + walk.head;
  float d_A_log = 0.0F, d_dt_bias = 0.0F, d_b_bias = 0.0F;
#pragma unroll 4
  for (std::int64_t token = walk.token; token < in.rows; token += walk.stride) {
    const std::int64_t at = token * in.q_heads + walk.head;
    const float step = to_float(a[token * in.a.row_stride]) + dt_bias;
    const float strength = sigmoid(to_float(b[token * in.b.row_stride]) + b_bias);
    const float d_rate = p.d_g[at] * rate;
    const float da = d_rate * (step > 20.0F ? 1.0F : sigmoid(step));
    const float db = p.d_beta[at] * in.beta_scale * strength * (1.0F - strength);
    static_cast<T*>(p.d_a)[at] = from_float<T>(da);
    static_cast<T*>(p.d_b)[at] = from_float<T>(db);
    d_A_log += d_rate * softplus(step);
    d_dt_bias += da;
    d_b_bias += db;
  }
  const std::int64_t plane = partials.groups * in.q_heads;
  partials.gates[walk.group] = d_A_log;
  partials.gates[plane + walk.group] = d_dt_bias;
  partials.gates[2 * plane + walk.group] = d_b_bias;
}

template <class Row>
__global__ void __launch_bounds__(kHeadRowThreads, kResident<typename Row::Value>)
    gdn_inputs_backward_kernel(const __grid_constant__ GdnInputsBackward p, const __grid_constant__ Partials partials,
                               const GdnInputsGrid grid) {
  int block = static_cast<int>(blockIdx.x);
  if (block < grid.q) {
    write_projection_gradient<Row>(p.in, p.in.q, p.in.q_norm, p.in.q_heads, p.d_q, p.d_q_projection,
                                   p.d_q_norm != nullptr ? partials.q_norm : nullptr, block, grid.q);
    return;
  }
  block -= grid.q;
  if (block < grid.k) {
    write_projection_gradient<Row>(p.in, p.in.k, p.in.k_norm, p.in.k_heads, p.d_k, p.d_k_projection,
                                   p.d_k_norm != nullptr ? partials.k_norm : nullptr, block, grid.k);
    return;
  }
  write_gate_gradients<typename Row::Value>(p, partials, block - grid.k, grid.gates);
}

template <class T>
cudaError_t launch(const GdnInputsBackward& p, cudaStream_t stream) {
  const GdnProjections& in = p.in;
  const bool aligned = aligned16(in) && aligned16(p.d_q, in.element) && aligned16(p.d_k, in.element);
  return with_row_layout<T>(in.size, aligned, [&](auto row) {
    using Row = decltype(row);
    const GdnInputsGrid grid = gdn_inputs_grid(in, Row::kLanes, kResident<T>);
    const Partials partials = partials_of(in, grid, p.scratch);
    gdn_inputs_backward_kernel<Row>
        <<<static_cast<unsigned>(grid.total()), kHeadRowThreads, 0, stream>>>(p, partials, grid);
    const std::int64_t plane = partials.groups * in.q_heads;
    ColumnSums sums;
    sums.add({partials.q_norm, grid.q, in.size, p.d_q_norm});
    sums.add({partials.k_norm, grid.k, in.size, p.d_k_norm});
    sums.add({partials.gates, partials.groups, in.q_heads, p.d_A_log});
    sums.add({partials.gates + plane, partials.groups, in.q_heads, p.d_dt_bias});
    sums.add({partials.gates + 2 * plane, partials.groups, in.q_heads, p.d_b_bias});
    const cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? launch_column_sums(sums, stream) : status;
  });
}

// The most that any row layout needs.
template <class T>
std::size_t scratch_of(const GdnProjections& in) {
  std::size_t bytes = 0;
  for (const bool aligned : {true, false}) {
    with_row_layout<T>(in.size, aligned, [&](auto row) {
      const GdnInputsGrid grid = gdn_inputs_grid(in, decltype(row)::kLanes, kResident<T>);
      bytes = std::max(bytes, partials_of(in, grid, nullptr).bytes);
      return 0;
    });
  }
  return bytes;
}

}  // namespace

std::size_t gdn_inputs_backward_scratch(const GdnProjections& in) {
  return in.element == Element::bf16 ? scratch_of<__nv_bfloat16>(in) : scratch_of<float>(in);
}

cudaError_t launch_gdn_inputs_backward(const GdnInputsBackward& p, cudaStream_t stream) {
  if (p.in.rows == 0) {
    return cudaErrorInvalidValue;  // the parameters' gradients would stay unset
  }
  return p.in.element == Element::bf16 ? launch<__nv_bfloat16>(p, stream) : launch<float>(p, stream);
}

}  // namespace hydra::kernels
