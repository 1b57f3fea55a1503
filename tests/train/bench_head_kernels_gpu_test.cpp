// The benchmark of the kernels around the delta rule runs, and they keep to a share of the copy rate.
#include <gtest/gtest.h>

#include <iostream>

#include "hydrahead/train/bench_head_kernels.hpp"
#include "tests/support/cuda.hpp"

namespace hydra {
namespace {

#if HYDRA_CUDA
TEST(BenchHeadKernels, BandwidthOfEveryKernel) {
  HYDRA_NEEDS_CUDA();
  for (const std::int64_t head_dim : {128, 64}) {
    const Json record = train::bench_head_kernels({.rows = 32768, .heads = 16, .head_dim = head_dim});
    std::cout << train::bench_head_kernels_text(record);
    ASSERT_EQ(record["rows"].size(), 6U);
    for (const Json& row : record["rows"]) {
      EXPECT_GT(row["share_of_copy"].get<double>(), 0.5) << row.dump();  // a collapse, not noise, fails
    }
  }
}
#endif

}  // namespace
}  // namespace hydra
