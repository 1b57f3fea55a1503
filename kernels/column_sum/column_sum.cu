// One block sums 32 columns: each of its 16 warps takes every 16th row, then the warps' sums are added in order.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/column_sum/launch.h"

namespace hydra::kernels {
namespace {

constexpr int kColumns = 32;
constexpr int kWarps = 16;

__global__ void __launch_bounds__(kColumns* kWarps) column_sum_kernel(const __grid_constant__ ColumnSums sums) {
  __shared__ float partial[kWarps][kColumns];
  const ColumnSum& job = sums.job[blockIdx.y];
  const int lane = static_cast<int>(threadIdx.x) % kColumns;
  const int warp = static_cast<int>(threadIdx.x) / kColumns;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + lane;
  if (static_cast<std::int64_t>(blockIdx.x) * kColumns >= job.columns) {
    return;
  }
  float sum = 0.0F;
  if (column < job.columns) {
    const float* values = job.values + column;
#pragma unroll 8
    for (std::int64_t row = warp; row < job.rows; row += kWarps) {
      sum += values[row * job.columns];
    }
  }
  partial[warp][lane] = sum;
  __syncthreads();
  if (warp == 0 && column < job.columns) {
    float total = 0.0F;
    for (int i = 0; i < kWarps; ++i) {
      total += partial[i][lane];
    }
    job.sums[column] = total;
  }
}

}  // namespace

cudaError_t launch_column_sums(const ColumnSums& sums, cudaStream_t stream) {
  if (sums.count == 0) {
    return cudaSuccess;
  }
  std::int64_t columns = 0;
  for (int i = 0; i < sums.count; ++i) {
    columns = std::max(columns, sums.job[i].columns);
  }
  const dim3 grid(static_cast<unsigned>((columns + kColumns - 1) / kColumns), static_cast<unsigned>(sums.count));
  column_sum_kernel<<<grid, kColumns * kWarps, 0, stream>>>(sums);
  return cudaGetLastError();
}

}  // namespace hydra::kernels
