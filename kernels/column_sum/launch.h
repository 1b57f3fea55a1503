#pragma once
// Sums of the columns of small fp32 matrices, several in one launch, in a fixed order: the second half of reductions
// whose first half leaves one row of partial sums a block or a thread group.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace hydra::kernels {

struct ColumnSum {
  const float* values = nullptr;  // [rows, columns]
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float* sums = nullptr;  // [columns]
};

struct ColumnSums {
  static constexpr int kMost = 5;
  ColumnSum job[kMost];
  int count = 0;

  // A reduction whose result nobody wants (null sums) is left out.
  void add(const ColumnSum& next) {
    if (next.sums != nullptr) {
      job[count++] = next;
    }
  }
};

cudaError_t launch_column_sums(const ColumnSums& sums, cudaStream_t stream);

}  // namespace hydra::kernels
