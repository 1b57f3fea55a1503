#pragma once
// Teacher + head plan + calibration -> initialised hybrid (method.md sections 4.4 and 5).

#include <cstdint>
#include <string>
#include <vector>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {

// Statistics of one teacher layer over the calibration tokens, a value a head (method.md 4.4).
struct HeadStatistics {
  std::vector<double> rms;            // E[rms(O_h)]
  std::vector<double> distance;       // mean attention distance
  std::vector<double> entropy;        // mean attention entropy, nats
};

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

// The teacher is unchanged. Calibration is needed unless all new values are constants (gdn.init random and gamma one).
Conversion convert(const Model& teacher, const HeadPlan& plan, const HybridConfig& hybrid,
                   const CalibrationTokens& calibration, std::int64_t seed);

}  // namespace hydra::model
