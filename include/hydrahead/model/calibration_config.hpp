#pragma once
// The config section `calibration`: how much text the teacher's statistics are taken from (method.md 4.4).

#include <cstdint>

#include "hydrahead/config/binder.hpp"

namespace hydra::model {

struct CalibrationConfig {
  std::int64_t tokens = 65536;
  std::int64_t context = 4096;  // cut to the teacher's window
};
void describe(config::Binder& binder, CalibrationConfig& value);

}  // namespace hydra::model
