#pragma once
// Teacher + head plan + calibration -> initialised hybrid (method.md sections 4.4 and 5).

#include <cstdint>
#include <string>
#include <vector>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {

// Token rows for calibration; sequences as lengths (method.md 4.4: "exactly").
struct CalibrationTokens {
  std::vector<std::vector<std::int32_t>> sequences;
};

// Which initial value each new parameter got: printed by convert and stored with the checkpoint.
struct NewParameter {
  std::string name;
  std::string initial_value;  // for example "0", "softplus^-1(ln 2 / distance)"
};

struct Conversion {
  Model hybrid;
  std::vector<NewParameter> new_parameters;
};

// Whether the initial values depend on calibration tokens: gdn.init or fusion.gamma_init is `calibrated`.
bool needs_calibration(const HybridConfig& hybrid);

// The teacher is unchanged. `calibration` may be empty if it is not needed. `seed` draws the random initial values.
Conversion convert(const Model& teacher, const HeadPlan& plan, const HybridConfig& hybrid,
                   const CalibrationTokens& calibration, std::int64_t seed);

}  // namespace hydra::model
