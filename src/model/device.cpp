#include "hydrahead/model/device.hpp"

#include <ATen/ATen.h>
#include <malloc.h>

#include "hydrahead/base/error.hpp"

namespace hydra::model {
namespace {

// The tensors of one layer take the memory that those of the last have freed. glibc would return blocks of their size
// to the kernel each time, which clears every page again: a tenth of the time of a pass.
at::Device cpu() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_ARENA_MAX, 1);  // the other threads' arenas cannot grow to such blocks
  return at::kCPU;
}

}  // namespace

at::Device choose_device(const std::string& word) {
  if (word == "auto") {
    return at::hasCUDA() ? at::Device(at::kCUDA, 0) : cpu();
  }
  if (word == "cpu") {
    return cpu();
  }
  HYDRA_REQUIRE(word == "cuda", "device: found '", word, "', expected auto, cpu or cuda");
  HYDRA_REQUIRE(at::hasCUDA(), "device: cuda was asked for, but no CUDA device is usable here");
  return at::Device(at::kCUDA, 0);
}

LoadOptions inference_options(const std::string& device, const std::string& precision) {
  LoadOptions options;
  options.device = choose_device(device);
  if (precision == "auto") {
    options.compute_type = options.device.is_cuda() ? at::kBFloat16 : at::kFloat;
  } else if (precision == "fp32") {
    options.compute_type = at::kFloat;
  } else if (precision == "bf16") {
    options.compute_type = at::kBFloat16;
  } else if (precision == "fp64") {
    options.compute_type = at::kDouble;
  } else {
    fail_request("precision: found '", precision, "', expected auto, fp32, bf16 or fp64");
  }
  options.parameter_type = options.compute_type;
  return options;
}

}  // namespace hydra::model
