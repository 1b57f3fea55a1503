#pragma once
// The settings `device` and `precision`, as words of a config file or a command line.

#include <string>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {

// auto | cpu | cuda. auto: cuda if this build has it and a device is there. UserError for cuda without a device. With
// the CPU, memory that tensors free stays with the process for the next ones.
at::Device choose_device(const std::string& word);

// precision: auto | fp32 | bf16 | fp64. auto: fp32 on the CPU, bf16 on CUDA. For inference the parameters are stored in
// the compute type (gamma, A_log, dt_bias stay fp32).
LoadOptions inference_options(const std::string& device, const std::string& precision);

}  // namespace hydra::model
