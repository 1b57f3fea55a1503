#pragma once
// AdamW (Loshchilov and Hutter, 2019) over groups of parameters through ATen's fused kernel. Clipping and the decision
// to skip a step with non-finite gradients stay on the device.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hydrahead/optim/gradients.hpp"
#include "hydrahead/optim/optim_config.hpp"

namespace hydra::optim {

struct OptimizedParameter {
  std::string name;
  at::Tensor tensor;        // updated in place
  bool decay = true;        // weight decay applies: matrices
  double rate_scale = 1.0;  // multiplies the learning rate
};

class AdamW {
 public:
  // Moments of zero, step 0: a stage starts with a fresh optimizer.
  AdamW(std::vector<OptimizedParameter> parameters, const OptimizerConfig& config);

  // One update from `gradients` (in the order of the parameters), which the call divides by check.divisor in place;
  // changes nothing, the step count included, if check.non_finite is 1.
  void step(const std::vector<at::Tensor>& gradients, double rate, const GradientCheck& check);

  // "<parameter>.exp_avg", "<parameter>.exp_avg_sq" and the scalar "step": views, not copies.
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  // Copies a saved state in. UserError unless names and shapes are exactly those of state(); `where` stands in
  // messages.
  void load_state(const std::vector<std::pair<std::string, at::Tensor>>& saved, const std::string& where);

  const std::vector<OptimizedParameter>& parameters() const { return parameters_; }

 private:
  struct Group {
    bool decay;
    double rate_scale;
    std::vector<std::size_t> members;  // into parameters_
  };
  OptimizerConfig config_;
  std::vector<OptimizedParameter> parameters_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> first_moments_, second_moments_;
  at::Tensor step_;  // fp32 scalar: updates done, shared by all parameters
};

}  // namespace hydra::optim
