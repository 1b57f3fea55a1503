#include "plan_order.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "hydrahead/base/random.hpp"

namespace hydra::model {
namespace {

constexpr std::uint32_t random_stream = 0x68656164;  // "head"

void put_kept_first(const PlanTask& task, std::vector<Unit>& order) {
  std::stable_partition(order.begin(), order.end(), [&](const Unit& unit) { return task.kept.count(unit) > 0; });
}

}  // namespace

std::vector<Unit> scored_order(const PlanTask& task, const HeadScores& scores) {
  std::vector<Unit> order;
  std::set<Unit> seen;
  for (const auto& [layer, head] : ranking(scores)) {
    const Unit unit{layer, head / task.heads_per_unit};
    if (seen.insert(unit).second) {
      order.push_back(unit);
    }
  }
  put_kept_first(task, order);
  return order;
}

std::vector<Unit> random_order(const PlanTask& task, std::int64_t seed) {
  std::vector<Unit> order;
  for (std::int64_t layer = 0; layer < task.layers; ++layer) {
    for (std::int64_t index = 0; index < task.per_layer; ++index) {
      order.push_back({layer, index});
    }
  }
  RandomStream(static_cast<std::uint64_t>(seed), random_stream).shuffle(order);
  put_kept_first(task, order);
  return order;
}

std::vector<std::int64_t> scored_layers(const PlanTask& task, const HeadScores& scores) {
  std::vector<std::int64_t> layers(scores.layers.size());
  std::iota(layers.begin(), layers.end(), 0);
  const auto sums = [&](std::int64_t layer) {
    std::array<double, 3> sum{};
    for (const HeadScore& head : scores.layers[layer]) {
      sum[0] += head.score;
      sum[1] += head.effect;
      sum[2] += head.attribution;
    }
    return sum;
  };
  std::stable_sort(layers.begin(), layers.end(), [&](std::int64_t a, std::int64_t b) { return sums(a) > sums(b); });
  std::stable_partition(layers.begin(), layers.end(), [&](std::int64_t layer) {
    return std::any_of(task.kept.begin(), task.kept.end(), [&](const Unit& unit) { return unit.layer == layer; });
  });
  return layers;
}

}  // namespace hydra::model
