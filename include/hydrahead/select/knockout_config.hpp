#pragma once
// The config section `select.knockout`: how a ranking of heads is checked by removing them (method.md 3.7).

#include <cstdint>
#include <vector>

#include "hydrahead/config/binder.hpp"
#include "hydrahead/data/niah.hpp"

namespace hydra::select {

struct KnockoutConfig {
  std::vector<data::NiahTask> tasks = {data::NiahTask::single_1, data::NiahTask::single_2, data::NiahTask::multikey_1};
  std::int64_t samples = 24;         // a task
  std::vector<std::int64_t> counts;  // heads removed; empty: 0, 1, 2, 3, 4, 6, 8, 12, ... up to half of them
  std::int64_t random_orders = 3;
  std::int64_t seed = 1000;  // of the samples: others than those of `eval`
};
void describe(config::Binder& binder, KnockoutConfig& value);

}  // namespace hydra::select
