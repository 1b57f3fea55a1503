#pragma once
// Arrays of head-wise rows, as most kernels read and write them.

#include <cstdint>

namespace hydra::kernels {

// A [N, heads, size] array whose last dimension is contiguous; strides in elements.
struct HeadRows {
  void* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
};
struct ConstHeadRows {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
};

}  // namespace hydra::kernels
