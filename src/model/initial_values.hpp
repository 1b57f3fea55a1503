#pragma once
// Internal to conversion: the table of initial values (method.md 4.4).

#include <ATen/core/Tensor.h>
#include <ATen/core/TensorBody.h>

#include <string>
#include <vector>

#include "hydrahead/base/random.hpp"
#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {

// Everything of one layer that does not depend on calibration: copies of the teacher's rows, constants, random draws.
// Calibrated parameters start at a neutral value.
void initialise_layer(const Layer& teacher, const LayerPlan& plan, const Qwen3Config& config,
                      const HybridConfig& options, RandomStream& random, Layer& hybrid);

// In words, for a parameter that the method defines as new; empty for one copied from the teacher.
std::string initial_value_of(const std::string& name, const HybridConfig& options);

// fp32, or fp64 for fp64 parameters: the type of gamma, A_log, dt_bias.
at::TensorOptions fp32_or_wider(const at::Tensor& like);
at::Tensor from_values(const std::vector<double>& values, const at::TensorOptions& options);
double inverse_softplus(double x);  // x > 0

}  // namespace hydra::model
