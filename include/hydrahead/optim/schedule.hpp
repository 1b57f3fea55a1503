#pragma once
// Learning rates as pure functions of the step, so that a resumed run needs no schedule state (method.md section 6).

#include <cstdint>

#include "hydrahead/optim/optim_config.hpp"

namespace hydra::optim {

// The rate of the update number `step` (0-based) of a stage of `total_steps`. Warm-up is linear and reaches the peak
// with its last step; the cosine reaches final_rate with the last step of the stage.
double learning_rate(const LrConfig& config, std::int64_t step, std::int64_t total_steps);

}  // namespace hydra::optim
