#pragma once
// What the forward and backward kernels share: the branch of a head, and its gate.

#include "kernels/head_output/params.h"
#include "kernels/head_row.cuh"

namespace hydra::kernels {

// Where a group of lanes reads.
struct HeadSource {
  OutputBranch branch;
  int index;   // 0 or 1
  int packed;  // head within the branch
  bool elementwise;

  __device__ HeadSource(const HeadOutput& in, int head) {
    const int source = in.source[head];
    index = source % 2;
    packed = source / 2;
    branch = index == 0 ? in.branch[0] : in.branch[1];
    elementwise = branch.kind != GateKind::none && !branch.headwise;
  }
};

// A headwise gate's logit; infinite without a gate, for a factor of 1.
template <class T>
__device__ float single_logit(const OutputBranch& branch, const T* logit, bool visited) {
  if (branch.kind == GateKind::none) {
    return INFINITY;
  }
  return visited && branch.headwise ? to_float(*logit) : 0.0F;
}

// amplitude of (token, head); without amplitudes a gate counts twice.
__device__ inline float amplitude_of(const HeadOutput& in, const OutputBranch& branch, int token, int head) {
  if (in.amplitude == nullptr) {
    return branch.kind == GateKind::none ? 1.0F : 2.0F;
  }
  return in.amplitude[token * in.amplitude_stride + head];
}

// Gate values a of a lane, and what their slope needs.
template <class Row>
struct Gate {
  float logistic[2 * Row::kHalf];  // sigmoid(z)
  float value[2 * Row::kHalf];     // a

  // Logits z of the row, or one for all of it. No gate is a sigmoid far out.
  __device__ void set(const HeadSource& from, const float (&z)[2 * Row::kHalf], float one) {
    const bool silu = from.branch.kind == GateKind::silu;
#pragma unroll
    for (int j = 0; j < 2 * Row::kHalf; ++j) {
      const float logit = from.elementwise ? z[j] : one;
      logistic[j] = fast_sigmoid(logit);
      value[j] = logistic[j] * (silu ? logit : 1.0F);
    }
  }
  // da/dz: s - s a of a sigmoid, a + s (1 - a) of silu.
  __device__ float slope(GateKind kind, int j) const {
    const float one = kind == GateKind::silu ? 1.0F : 0.0F;
    return value[j] + logistic[j] * (one - value[j]);
  }
};

inline bool aligned16(const HeadOutput& in) {
  bool aligned = true;
  for (const OutputBranch& branch : in.branch) {
    const bool elementwise = branch.kind != GateKind::none && !branch.headwise;
    aligned = aligned && aligned16(branch.heads, in.element) && (!elementwise || aligned16(branch.gate, in.element));
  }
  return aligned;
}

}  // namespace hydra::kernels
