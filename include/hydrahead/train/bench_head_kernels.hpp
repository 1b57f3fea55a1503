#pragma once
// Times of the kernels around the gated delta rule (its inputs, the fused heads, the short convolution) on one GPU, as
// a share of the rate of a plain copy: all of them are bound by memory. Only in builds with CUDA.

#include <cstdint>
#include <string>

#include "hydrahead/base/json.hpp"

namespace hydra::train {

struct BenchHeadKernelsOptions {
  std::int64_t rows = 32768, heads = 16, head_dim = 128;
};

// bf16, all options of the default model; a quarter of the heads FA in the fused heads. Medians.
Json bench_head_kernels(const BenchHeadKernelsOptions& options);

// The record of bench_head_kernels as text for people.
std::string bench_head_kernels_text(const Json& record);

}  // namespace hydra::train
