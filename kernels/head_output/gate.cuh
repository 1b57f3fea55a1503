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

  // Logits z of the row, or one for all of it.
  __device__ void set(const OutputBranch& branch, const float (&z)[2 * Row::kHalf], float one) {
#pragma unroll
    for (int j = 0; j < 2 * Row::kHalf; ++j) {
      const float logit = branch.headwise ? one : z[j];
      logistic[j] = fast_sigmoid(logit);
      value[j] = branch.kind == GateKind::none   ? 1.0F
                 : branch.kind == GateKind::silu ? logit * logistic[j]
                                                 : logistic[j];
    }
  }
  // da/dz: s (1 - s), or s + z s (1 - s) = s + a (1 - s).
  __device__ float slope(GateKind kind, int j) const {
    const float first = kind == GateKind::silu ? logistic[j] : 0.0F;
    return first + value[j] * (1.0F - logistic[j]);
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
