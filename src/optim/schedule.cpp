#include "hydrahead/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hydra::optim {

double learning_rate(const LrConfig& config, std::int64_t step, std::int64_t total_steps) {
  const auto update = static_cast<double>(step + 1);
  const auto warmup = static_cast<double>(config.warmup);
  if (update < warmup) {
    return config.peak * update / warmup;
  }
  const auto decay_steps = static_cast<double>(total_steps) - warmup;
  if (config.schedule == Schedule::constant || decay_steps <= 0) {
    return config.peak;
  }
  const double progress = std::clamp((update - warmup) / decay_steps, 0.0, 1.0);
  return config.final_rate + 0.5 * (config.peak - config.final_rate) * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace hydra::optim
