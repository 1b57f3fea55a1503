// Gradients of the branches' heads, gates and amplitudes. With S = sum dy a O and c = amplitude r^3 S / d (0 without
// the norm):
//   d amplitude = r S
//   gate after the norm:  dO = amplitude r a dy - c O,   da = amplitude r O dy
//   gate before it:       dO = a e,  da = O e,           e = amplitude r dy - c a O
// and for a headwise gate, with S0 = sum dy O, da = amplitude r S0, before the norm amplitude eps r^3 S0 (closed form:
// the norm undoes a common factor but for eps).
// The gradient of amplitudes that all rows share is summed per group of lanes, then over groups by a second launch.
#include <cuda_runtime.h>

#include "kernels/column_sum/launch.h"
#include "kernels/head_output/gate.cuh"
#include "kernels/head_output/launch.h"

namespace hydra::kernels {
namespace {

template <class T>
constexpr int kResident = sizeof(T) == 2 ? 2 : 1;
template <class T>
constexpr int kDepth = 4 / sizeof(T);  // rows ahead

template <class Row>
__global__ void __launch_bounds__(kHeadRowThreads, kResident<typename Row::Value>)
    head_output_backward_kernel(const __grid_constant__ HeadOutputBackward p) {
  using T = typename Row::Value;
  using Queue = typename Row::template Queue<kDepth<T>>;
  constexpr int depth = kQueueDepth<Row, kDepth<T>>;
  __shared__ typename Queue::Shared shared, gate_shared, d_shared;
  Queue queue(shared), gate_queue(gate_shared), d_queue(d_shared);
  const HeadOutput& in = p.in;
  const int d = in.shape.size;
  const int heads = in.shape.heads;
  const float inverse_size = 1.0F / static_cast<float>(d);
  const bool any_headwise = in.branch[0].headwise || in.branch[1].headwise;
  const RowWalk walk =
      row_walk<Row::kLanes>(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), heads, in.shape.rows);
  const HeadSource from(in, walk.head);
  const OutputBranch& branch = from.branch;
  const BranchGradient& gradient = from.index == 0 ? p.gradient[0] : p.gradient[1];
  const auto* source = static_cast<const T*>(branch.heads.data) + walk.offset(branch.heads, from.packed);
  const auto* gate_source = static_cast<const T*>(branch.gate.data) + walk.offset(branch.gate, from.packed);
  const auto* logit = gate_source;  // of a headwise gate
  const auto* upstream = static_cast<const T*>(p.d_y.data) + walk.offset(p.d_y, walk.head);
  const auto push = [&](int i) {
    if (i < walk.visits) {
      queue.push(i % depth, source, walk.lane, d);
      d_queue.push(i % depth, upstream, walk.lane, d);
      if (from.elementwise) {
        gate_queue.push(i % depth, gate_source, walk.lane, d);
      }
    }
    commit_rows();
    source += walk.step(branch.heads);
    upstream += walk.step(p.d_y);
    gate_source += walk.step(branch.gate);
  };
#pragma unroll
  for (int i = 0; i < depth; ++i) {
    push(i);
  }
  float d_amplitude = 0.0F;
#pragma unroll 1
  for (int i = 0; i < walk.steps; ++i) {
    const bool visited = i < walk.visits;
    const int token = walk.token + i * walk.stride;
    const float one = single_logit(branch, logit, visited);
    const float amplitude = visited ? amplitude_of(in, branch, token, walk.head) : 0.0F;
    logit += walk.step(branch.gate);
    wait_rows<depth - 1>();
    float o[2 * Row::kHalf], dy[2 * Row::kHalf], z[2 * Row::kHalf];
    queue.values(i % depth, o);
    d_queue.values(i % depth, dy);
    gate_queue.values(i % depth, z);
    push(i + depth);
    Gate<Row> gate;
    gate.set(from, z, one);
    float square = 0.0F, gated_sum = 0.0F, plain_sum = 0.0F;
#pragma unroll
    for (int j = 0; j < 2 * Row::kHalf; ++j) {
      const float gated = o[j] * gate.value[j];
      const float v = in.gate_first ? gated : o[j];
      square += v * v;
      gated_sum += dy[j] * gated;
      plain_sum += dy[j] * o[j];
    }
    square = row_sum<Row::kLanes>(square);
    gated_sum = row_sum<Row::kLanes>(gated_sum);
    if (any_headwise) {
      plain_sum = row_sum<Row::kLanes>(plain_sum);
    }
    if (visited) {
      const std::int64_t packed_row = std::int64_t{token} * gradient.count + from.packed;
      const float r = in.normalize ? rsqrtf(square * inverse_size + in.eps) : 1.0F;
      const float factor = amplitude * r;
      const float c = in.normalize ? factor * r * r * gated_sum * inverse_size : 0.0F;
      const float before = in.gate_first ? c : 0.0F;
      const float after = in.gate_first ? 0.0F : c;
      if (in.amplitude_stride != 0) {
        if (walk.lane == 0 && p.d_amplitude != nullptr) {
          p.d_amplitude[token * in.amplitude_stride + walk.head] = r * gated_sum;
        }
      } else {
        d_amplitude += r * gated_sum;
      }
      if (branch.headwise && walk.lane == 0) {
        const float da = (in.gate_first && in.normalize ? in.eps * r * r : 1.0F) * factor * plain_sum;
        static_cast<T*>(gradient.gate)[packed_row] = from_float<T>(da * gate.slope(branch.kind, 0));
      }
#pragma unroll
      for (int j = 0; j < 2 * Row::kHalf; ++j) {
        const float e = factor * dy[j] - before * (gate.value[j] * o[j]);
        dy[j] = gate.value[j] * e - after * o[j];
        o[j] = o[j] * e * gate.slope(branch.kind, j);
      }
      Row::store(static_cast<T*>(gradient.heads) + packed_row * d, walk.lane, d, dy);
      if (from.elementwise) {
        Row::store(static_cast<T*>(gradient.gate) + packed_row * d, walk.lane, d, o);
      }
    }
  }
  if (p.d_amplitude != nullptr && in.amplitude_stride == 0 && walk.lane == 0 && walk.member) {
    static_cast<float*>(p.scratch)[walk.group] = d_amplitude;
  }
}

template <class T, class Row>
int blocks_of(const HeadOutput& in) {
  return head_row_blocks(in.shape.rows, in.shape.heads, Row::kLanes, kResident<T> * multiprocessors());
}

template <class T>
cudaError_t launch(const HeadOutputBackward& p, cudaStream_t stream) {
  const HeadOutput& in = p.in;
  const bool aligned = aligned16(in) && aligned16(p.d_y, in.element);
  return with_row_layout<T>(in.shape.size, aligned, [&](auto row) {
    using Row = decltype(row);
    const int blocks = blocks_of<T, Row>(in);
    head_output_backward_kernel<Row><<<static_cast<unsigned>(blocks), kHeadRowThreads, 0, stream>>>(p);
    ColumnSums sums;
    if (in.amplitude_stride == 0) {
      const std::int64_t groups = std::int64_t{blocks} * (kHeadRowThreads / Row::kLanes) / in.shape.heads;
      sums.add({static_cast<const float*>(p.scratch), groups, in.shape.heads, p.d_amplitude});
    }
    const cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? launch_column_sums(sums, stream) : status;
  });
}

// The most that any row layout needs.
template <class T>
std::size_t scratch_of(const HeadOutput& in) {
  std::size_t bytes = 0;
  for (const bool aligned : {true, false}) {
    with_row_layout<T>(in.shape.size, aligned, [&](auto row) {
      using Row = decltype(row);
      const std::size_t groups = static_cast<std::size_t>(blocks_of<T, Row>(in)) * (kHeadRowThreads / Row::kLanes);
      bytes = std::max(bytes, groups * sizeof(float));
      return 0;
    });
  }
  return bytes;
}

}  // namespace

std::size_t head_output_backward_scratch(const HeadOutput& in) {
  if (in.amplitude == nullptr || in.amplitude_stride != 0) {
    return 0;
  }
  return in.element == Element::bf16 ? scratch_of<__nv_bfloat16>(in) : scratch_of<float>(in);
}

cudaError_t launch_head_output_backward(const HeadOutputBackward& p, cudaStream_t stream) {
  if (p.in.shape.rows == 0) {
    return cudaErrorInvalidValue;  // the amplitudes' gradient would stay unset
  }
  return p.in.element == Element::bf16 ? launch<__nv_bfloat16>(p, stream) : launch<float>(p, stream);
}

}  // namespace hydra::kernels
