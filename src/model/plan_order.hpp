#pragma once
// In which order a rule looks at the units of a model: heads, or whole KV groups (method.md 3.5).

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "hydrahead/model/head_scores.hpp"

namespace hydra::model {

struct Unit {
  std::int64_t layer, index;
  auto operator<=>(const Unit&) const = default;
};

// What a rule works with: sizes in units, the budget and the units that are kept in any case.
struct PlanTask {
  std::int64_t layers, per_layer;  // L, U
  std::int64_t heads_per_unit;
  std::int64_t budget;  // K
  std::set<Unit> kept;
  std::string rule;

  std::int64_t total() const { return layers * per_layer; }
  const char* noun() const { return heads_per_unit == 1 ? "heads" : "KV groups"; }
};

// All units, those kept in any case before all others; a unit stands where its best head does.
std::vector<Unit> scored_order(const PlanTask& task, const HeadScores& scores);
std::vector<Unit> random_order(const PlanTask& task, std::int64_t seed);

// All layers by their sums of scores, largest first; those with a unit that is kept in any case before all others.
// Equal sums are told apart by the sums of the further keys, then by the layers' order.
std::vector<std::int64_t> scored_layers(const PlanTask& task, const HeadScores& scores);

}  // namespace hydra::model
