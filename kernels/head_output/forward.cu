// y_h = amplitude r a O_h for the heads of both branches, each row read once and written to its place.
#include <cuda_runtime.h>

#include "kernels/head_output/gate.cuh"
#include "kernels/head_output/launch.h"

namespace hydra::kernels {
namespace {

template <class T>
constexpr int kResident = sizeof(T) == 2 ? 3 : 2;
template <class T>
constexpr int kDepth = 4 / sizeof(T);  // rows ahead

template <class Row>
__global__ void __launch_bounds__(kHeadRowThreads, kResident<typename Row::Value>)
    head_output_kernel(const __grid_constant__ HeadOutputForward p) {
  using T = typename Row::Value;
  using Queue = typename Row::template Queue<kDepth<T>>;
  constexpr int depth = kQueueDepth<Row, kDepth<T>>;
  __shared__ typename Queue::Shared shared, gate_shared;
  Queue queue(shared), gate_queue(gate_shared);
  const HeadOutput& in = p.in;
  const int d = in.shape.size;
  const int heads = in.shape.heads;
  const float inverse_size = 1.0F / static_cast<float>(d);
  const RowWalk walk =
      row_walk<Row::kLanes>(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), heads, in.shape.rows);
  const HeadSource from(in, walk.head);
  const OutputBranch& branch = from.branch;
  const auto* source = static_cast<const T*>(branch.heads.data) + walk.offset(branch.heads, from.packed);
  const auto* gate_source = static_cast<const T*>(branch.gate.data) + walk.offset(branch.gate, from.packed);
  const auto* logit = gate_source;  // of a headwise gate
  auto* target = static_cast<T*>(p.y) + (std::int64_t{walk.token} * heads + walk.head) * d;
  const auto push = [&](int i) {
    if (i < walk.visits) {
      queue.push(i % depth, source, walk.lane, d);
      if (from.elementwise) {
        gate_queue.push(i % depth, gate_source, walk.lane, d);
      }
    }
    commit_rows();
    source += walk.step(branch.heads);
    gate_source += walk.step(branch.gate);
  };
#pragma unroll
  for (int i = 0; i < depth; ++i) {
    push(i);
  }
#pragma unroll 1
  for (int i = 0; i < walk.steps; ++i) {
    const bool visited = i < walk.visits;
    const float one = single_logit(branch, logit, visited);
    const float amplitude = visited ? amplitude_of(in, branch, walk.token + i * walk.stride, walk.head) : 0.0F;
    logit += walk.step(branch.gate);
    wait_rows<depth - 1>();
    float o[2 * Row::kHalf], z[2 * Row::kHalf];
    queue.values(i % depth, o);
    gate_queue.values(i % depth, z);
    push(i + depth);
    Gate<Row> gate;
    gate.set(from, z, one);
    float square = 0.0F;
#pragma unroll
    for (int j = 0; j < 2 * Row::kHalf; ++j) {
      const float gated = o[j] * gate.value[j];
      const float v = in.gate_first ? gated : o[j];
      square += v * v;
      o[j] = gated;
    }
    square = row_sum<Row::kLanes>(square);
    const float factor = in.normalize ? amplitude * rsqrtf(square * inverse_size + in.eps) : amplitude;
#pragma unroll
    for (int j = 0; j < 2 * Row::kHalf; ++j) {
      o[j] *= factor;
    }
    if (visited) {
      Row::store(target, walk.lane, d, o);
    }
    target += std::int64_t{walk.stride} * (heads * d);
  }
}

template <class T>
cudaError_t launch(const HeadOutputForward& p, cudaStream_t stream) {
  return with_row_layout<T>(p.in.shape.size, aligned16(p.in), [&](auto row) {
    using Row = decltype(row);
    const int blocks =
        head_row_blocks(p.in.shape.rows, p.in.shape.heads, Row::kLanes, kResident<T> * multiprocessors());
    head_output_kernel<Row><<<static_cast<unsigned>(blocks), kHeadRowThreads, 0, stream>>>(p);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t launch_head_output_forward(const HeadOutputForward& p, cudaStream_t stream) {
  if (p.in.shape.rows == 0) {
    return cudaSuccess;
  }
  return p.in.element == Element::bf16 ? launch<__nv_bfloat16>(p, stream) : launch<float>(p, stream);
}

}  // namespace hydra::kernels
