#pragma once
// Arguments of the kernels that join the heads of both branches (method.md 4.3). Per row n and head h of a branch with
// output O and gate a = sigmoid(z) or silu(z):
//   y_h = amplitude_h r a O_h,   r = (mean v^2 + eps)^-1/2 with v = O_h, or v = a O_h for a gate before the norm
// Without the norm r is 1, and without amplitudes y_h = 2 a O_h (O_h without a gate). y holds the heads of both
// branches in original order.

#include <cstdint>

#include "kernels/element.h"
#include "kernels/head_rows.h"

namespace hydra::kernels {

enum class GateKind : std::int32_t { none, sigmoid, silu };

// A branch's heads in packed order. Gate logits have d values a head, or one (headwise).
struct OutputBranch {
  ConstHeadRows heads;  // O [N, h, d]
  ConstHeadRows gate;   // z [N, h, d] or [N, h, 1]
  GateKind kind = GateKind::none;
  bool headwise = false;
};

constexpr int kMaxOutputHeads = 256;

struct HeadOutputShape {
  std::int64_t rows = 0;   // N
  std::int32_t heads = 0;  // H, of both branches, at most kMaxOutputHeads
  std::int32_t size = 0;   // d, even, at most 256
};

struct HeadOutput {
  HeadOutputShape shape;
  Element element = Element::bf16;  // O, z, y and their gradients
  OutputBranch branch[2];
  std::int16_t source[kMaxOutputHeads] = {};  // of each head: its packed index x 2 + its branch
  const float* amplitude = nullptr;           // [H], or [N, H] (amplitude_stride H); null: none
  std::int64_t amplitude_stride = 0;
  bool normalize = true;
  bool gate_first = false;
  float eps = 1e-6F;
};

struct HeadOutputForward {
  HeadOutput in;
  void* y = nullptr;  // [N, H, d] contiguous
};

struct BranchGradient {
  void* heads = nullptr;   // dO [N, h, d] contiguous
  void* gate = nullptr;    // dz [N, h, d] or [N, h, 1] contiguous; null without a gate
  std::int32_t count = 0;  // h
};

struct HeadOutputBackward {
  HeadOutput in;
  ConstHeadRows d_y;  // [N, H, d]
  BranchGradient gradient[2];
  float* d_amplitude = nullptr;  // [H] or [N, H], as the amplitudes; null: not wanted
  void* scratch = nullptr;       // head_output_backward_scratch(in) bytes
};

}  // namespace hydra::kernels
