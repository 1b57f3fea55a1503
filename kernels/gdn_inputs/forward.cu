// Directions of queries and keys, decay and write strength, in one pass over the projections. Bound by memory: each
// group of lanes loads its next row before it works on the current one.
#include <cuda_runtime.h>

#include "kernels/gdn_inputs/launch.h"
#include "kernels/gdn_inputs/rows.cuh"

namespace hydra::kernels {
namespace {

template <class T>
constexpr int kResident = sizeof(T) == 2 ? 3 : 2;
template <class T>
constexpr int kDepth = 8 / sizeof(T);  // rows ahead

template <class Row>
__device__ void write_directions(const GdnProjections& in, const ConstHeadRows& projection, const Parameter& norm,
                                 int heads, void* output, int block, int blocks) {
  using T = typename Row::Value;
  const int d = in.size;
  const float inverse_size = 1.0F / static_cast<float>(d);
  const RowWalk walk = row_walk<Row::kLanes>(block, blocks, heads, in.rows);
  const auto* source = static_cast<const T*>(projection.data) + walk.offset(projection, walk.head);
  auto* target = static_cast<T*>(output) + (std::int64_t{walk.token} * heads + walk.head) * d;
  float weight[2 * Row::kHalf];
  load_weights<Row>(norm, walk.lane, d, weight);
  using Queue = typename Row::template Queue<kDepth<T>>;
  constexpr int depth = kQueueDepth<Row, kDepth<T>>;
  __shared__ typename Queue::Shared shared;
  Queue queue(shared);
  const auto push = [&](int i) {
    if (i < walk.visits) {
      queue.push(i % depth, source, walk.lane, d);
    }
    commit_rows();
    source += walk.step(projection);
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
    float x[2 * Row::kHalf];
    queue.values(i % depth, x);
    push(i + depth);
    const float r = row_scale<Row>(x, norm.data != nullptr, inverse_size, in.norm_eps);
#pragma unroll
    for (int j = 0; j < 2 * Row::kHalf; ++j) {
      x[j] *= r * weight[j];
    }
    rotation.apply(x, 1.0F);
    if (in.l2) {
      float square = 0.0F;
#pragma unroll
      for (int j = 0; j < 2 * Row::kHalf; ++j) {
        square += x[j] * x[j];
      }
      const float r2 = rsqrtf(row_sum<Row::kLanes>(square) + kL2Eps);
#pragma unroll
      for (int j = 0; j < 2 * Row::kHalf; ++j) {
        x[j] *= r2;
      }
    }
    if (i < walk.visits) {
      Row::store(target, walk.lane, d, x);
    }
    target += std::int64_t{walk.stride} * (heads * d);
  }
}

template <class T>
__device__ void write_gates(const GdnInputsForward& p, int block, int blocks) {
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
#pragma unroll 4
  for (std::int64_t token = walk.token; token < in.rows; token += walk.stride) {
    const float step = to_float(a[token * in.a.row_stride]) + dt_bias;
    const float strength = to_float(b[token * in.b.row_stride]) + b_bias;
    p.g[token * in.q_heads + walk.head] = rate * softplus(step);
    p.beta[token * in.q_heads + walk.head] = in.beta_scale * sigmoid(strength);
  }
}

template <class Row>
__global__ void __launch_bounds__(kHeadRowThreads, kResident<typename Row::Value>)
    gdn_inputs_kernel(const __grid_constant__ GdnInputsForward p, const GdnInputsGrid grid) {
  const int block = static_cast<int>(blockIdx.x);
  if (block < grid.q) {
    write_directions<Row>(p.in, p.in.q, p.in.q_norm, p.in.q_heads, p.q, block, grid.q);
  } else if (block < grid.q + grid.k) {
    write_directions<Row>(p.in, p.in.k, p.in.k_norm, p.in.k_heads, p.k, block - grid.q, grid.k);
  } else {
    write_gates<typename Row::Value>(p, block - grid.q - grid.k, grid.gates);
  }
}

template <class T>
cudaError_t launch(const GdnInputsForward& p, cudaStream_t stream) {
  return with_row_layout<T>(p.in.size, aligned16(p.in), [&](auto row) {
    using Row = decltype(row);
    const GdnInputsGrid grid = gdn_inputs_grid(p.in, Row::kLanes, kResident<T>);
    gdn_inputs_kernel<Row><<<static_cast<unsigned>(grid.total()), kHeadRowThreads, 0, stream>>>(p, grid);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t launch_gdn_inputs_forward(const GdnInputsForward& p, cudaStream_t stream) {
  if (p.in.rows == 0) {
    return cudaSuccess;
  }
  return p.in.element == Element::bf16 ? launch<__nv_bfloat16>(p, stream) : launch<float>(p, stream);
}

}  // namespace hydra::kernels
