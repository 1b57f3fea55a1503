#include "hydrahead/model/device.hpp"

#include <ATen/ATen.h>

#include "hydrahead/base/error.hpp"

namespace hydra::model {

at::Device choose_device(const std::string& word) {
  if (word == "auto") {
    return at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  }
  if (word == "cpu") {
    return at::kCPU;
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
