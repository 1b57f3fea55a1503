#pragma once
// The config section `optimizer` and each stage's `lr` (method.md section 6).

#include <cstdint>
#include <vector>

#include "hydrahead/config/binder.hpp"

namespace hydra::optim {

struct OptimizerConfig {
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.0;  // never on gamma, A_log, dt_bias
  double clip = 1.0;          // of the global gradient norm; 0: off
};
void describe(config::Binder& binder, OptimizerConfig& value);

// What the ranks of a data-parallel job split between them instead of each keeping it whole: masters and moments, then
// also gradients. `parameters` is a word of the config only.
enum class Shard { none, optimizer, gradients, parameters };
const char* shard_name(Shard shard);

enum class Schedule { cosine, constant };

// Multiplies the rate of a group of parameters.
struct LrScale {
  double base = 1.0;
  double attention = 1.0;  // the hybrid attention modules
};
void describe(config::Binder& binder, LrScale& value);

struct LrConfig {
  double peak = 1e-3;
  double final_rate = 1e-5;  // key `final`; cosine ends here
  Schedule schedule = Schedule::cosine;
  std::int64_t warmup = 50;  // steps, linear from 0
  LrScale scale = {};
};
void describe(config::Binder& binder, LrConfig& value);

}  // namespace hydra::optim
