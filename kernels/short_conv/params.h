#pragma once
// Arguments of the depthwise causal convolution of 4 taps (method.md 4.2), restarted at every sequence:
//   u_t = sum_j w_j x_{t-3+j},   y_t = u_t or silu(u_t)
// where the rows before a sequence are its history, or zero.

#include <cstdint>

#include "kernels/parameter.h"

namespace hydra::kernels {

constexpr int kConvTaps = 4;

struct ShortConv {
  std::int64_t rows = 0;                  // N
  std::int64_t channels = 0;              // C
  std::int32_t sequences = 0;             // S
  const std::int32_t* offsets = nullptr;  // [S+1] on the device, no empty sequence
  Element element = Element::bf16;        // x, y, histories and gradients
  const void* x = nullptr;                // [N, C], rows contiguous
  std::int64_t row_stride = 0;            // of x
  Parameter weight;                       // [C, 4], the last tap is the current row
  const void* history = nullptr;          // [S, C, 3], or null for zeros
  bool silu = false;
};

struct ShortConvForward {
  ShortConv in;
  void* y = nullptr;            // [N, C] contiguous
  void* new_history = nullptr;  // [S, C, 3]: the last rows of each sequence, not over `history`; null: not wanted
};

struct ShortConvBackward {
  ShortConv in;
  const void* d_y = nullptr;  // [N, C] contiguous
  void* d_x = nullptr;        // [N, C] contiguous
  float* d_weight = nullptr;  // [C, 4]; null: not wanted
  void* scratch = nullptr;    // short_conv_backward_scratch(in) bytes
};

}  // namespace hydra::kernels
