#pragma once
// What the forward and backward kernels share: the split of the grid, and a row's way from projection to direction.

#include "kernels/gdn_inputs/params.h"
#include "kernels/head_row.cuh"

namespace hydra::kernels {

constexpr float kL2Eps = 1e-6F;

// Blocks [0, q) do q, the next k blocks k, the last ones the gates; all of them are resident at once.
struct GdnInputsGrid {
  int q = 0, k = 0, gates = 0;
  int total() const { return q + k + gates; }
};

// `lanes` a row; `resident` blocks a multiprocessor.
inline GdnInputsGrid gdn_inputs_grid(const GdnProjections& in, int lanes, int resident) {
  const int capacity = resident * multiprocessors();
  const int gates = in.A_log == nullptr ? 0 : std::max(1, capacity / 8);
  const int rows = std::max(2, capacity - gates);
  const int q_share = std::max(1, static_cast<int>(std::int64_t{rows} * in.q_heads / (in.q_heads + in.k_heads)));
  GdnInputsGrid grid;
  grid.q = head_row_blocks(in.rows, in.q_heads, lanes, q_share);
  grid.k = head_row_blocks(in.rows, in.k_heads, lanes, rows - q_share);
  grid.gates = in.A_log == nullptr ? 0 : head_row_blocks(in.rows, in.q_heads, 1, gates);
  return grid;
}

inline bool aligned16(const GdnProjections& in) {
  return aligned16(in.q, in.element) && aligned16(in.k, in.element) && aligned16(in.cos) && aligned16(in.sin);
}

// A lane's channel weights; 1 where there are none.
template <class Row>
__device__ void load_weights(const Parameter& norm, int lane, int d, float (&weight)[2 * Row::kHalf]) {
#pragma unroll
  for (int i = 0; i < 2 * Row::kHalf; ++i) {
    weight[i] = norm.data != nullptr && Row::holds(i, lane, d) ? parameter_value(norm, Row::column(i, lane, d)) : 1.0F;
  }
}

// A lane's cosines and sines of a token; angle 0 without RoPE.
template <class Row>
struct Rotation {
  float cos[Row::kHalf], sin[Row::kHalf];

  __device__ void load(const GdnProjections& in, int token, bool visited, int lane) {
    if (in.cos != nullptr && visited) {
      const std::int64_t row = std::int64_t{token} * (in.size / 2);
      Row::load_half(in.cos + row, lane, in.size, cos);
      Row::load_half(in.sin + row, lane, in.size, sin);
      return;
    }
#pragma unroll
    for (int i = 0; i < Row::kHalf; ++i) {
      cos[i] = 1.0F;
      sin[i] = 0.0F;
    }
  }
  // By the angle (sign 1) or its opposite (-1, the transpose), in place.
  __device__ void apply(float (&x)[2 * Row::kHalf], float sign) const {
#pragma unroll
    for (int i = 0; i < Row::kHalf; ++i) {
      const float first = x[i], second = x[Row::kHalf + i];
      x[i] = first * cos[i] - sign * second * sin[i];
      x[Row::kHalf + i] = second * cos[i] + sign * first * sin[i];
    }
  }
};

// (mean x^2 + eps)^-1/2 of a row, or 1 without a norm.
template <class Row>
__device__ float row_scale(const float (&x)[2 * Row::kHalf], bool norm, float inverse_size, float eps) {
  if (!norm) {
    return 1.0F;
  }
  float square = 0.0F;
#pragma unroll
  for (int i = 0; i < 2 * Row::kHalf; ++i) {
    square += x[i] * x[i];
  }
  return rsqrtf(row_sum<Row::kLanes>(square) * inverse_size + eps);
}

// softplus as PyTorch has it: the identity above 20.
__device__ inline float softplus(float x) { return x > 20.0F ? x : log1pf(expf(x)); }
__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

}  // namespace hydra::kernels
