#include "hydrahead/optim/adamw.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "hydrahead/base/error.hpp"

namespace hydra::optim {

AdamW::AdamW(std::vector<OptimizedParameter> parameters, const OptimizerConfig& config)
    : config_(config), parameters_(std::move(parameters)) {
  HYDRA_CHECK(!parameters_.empty(), "nothing is trained");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const OptimizedParameter& parameter = parameters_[i];
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& candidate) {
      return candidate.decay == parameter.decay && candidate.rate_scale == parameter.rate_scale;
    });
    if (group == groups_.end()) {
      group = groups_.insert(groups_.end(), Group{parameter.decay, parameter.rate_scale, {}});
    }
    group->members.push_back(i);
    first_moments_.push_back(at::zeros_like(parameter.tensor, parameter.tensor.options().requires_grad(false)));
    second_moments_.push_back(at::zeros_like(first_moments_.back()));
  }
  step_ = at::zeros({}, first_moments_.front().options().dtype(at::kFloat));
}

void AdamW::step(const std::vector<at::Tensor>& gradients, double rate, const GradientCheck& check) {
  HYDRA_CHECK(gradients.size() == parameters_.size(), gradients.size(), " gradients for ", parameters_.size(),
              " parameters");
  const at::NoGradGuard no_grad;
  step_.add_(1.0 - check.non_finite);
  for (const Group& group : groups_) {
    std::vector<at::Tensor> weights, grads, first, second;
    for (const std::size_t i : group.members) {
      weights.push_back(parameters_[i].tensor);
      grads.push_back(gradients[i]);
      first.push_back(first_moments_[i]);
      second.push_back(second_moments_[i]);
    }
    const std::vector<at::Tensor> steps(weights.size(), step_);
    at::_fused_adamw_(weights, grads, first, second, {}, steps, rate * group.rate_scale, config_.betas[0],
                      config_.betas[1], group.decay ? config_.weight_decay : 0.0, config_.eps, /*amsgrad=*/false,
                      /*maximize=*/false, check.divisor, check.non_finite);
  }
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::state() const {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    tensors.emplace_back(parameters_[i].name + ".exp_avg", first_moments_[i]);
    tensors.emplace_back(parameters_[i].name + ".exp_avg_sq", second_moments_[i]);
  }
  tensors.emplace_back("step", step_);
  return tensors;
}

void AdamW::load_state(const std::vector<std::pair<std::string, at::Tensor>>& saved, const std::string& where) {
  const std::map<std::string, at::Tensor> found(saved.begin(), saved.end());
  auto wanted = state();
  for (const auto& [name, tensor] : wanted) {
    const auto entry = found.find(name);
    HYDRA_REQUIRE(entry != found.end(), where, ": no tensor ", name);
    HYDRA_REQUIRE(entry->second.sizes() == tensor.sizes(), where, ": ", name, " has shape ", entry->second.sizes(),
                  ", expected ", tensor.sizes());
  }
  HYDRA_REQUIRE(found.size() == wanted.size(), where, ": found ", found.size(), " tensors, expected ", wanted.size());
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : wanted) {
    tensor.copy_(found.at(name));
  }
}

}  // namespace hydra::optim
