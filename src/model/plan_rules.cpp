// Head plans by rule (method.md 3.5). A rule chooses K units of L layers x U units; a unit is a query head, or a whole
// KV group: with `budget: kv_groups` a touched group is paid for once and its sibling heads come free.

#include <algorithm>
#include <cmath>
#include <set>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/model/head_plan.hpp"
#include "plan_order.hpp"

namespace hydra::model {
namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

std::string ratio_text(std::int64_t part, std::int64_t whole) {
  return detail::concat(static_cast<double>(part) / static_cast<double>(whole));
}

// Refuses a budget that is no multiple of `step`, with the two ratios around it.
void require_multiple(std::int64_t budget, std::int64_t step, std::int64_t total, double fa_ratio,
                      const std::string& what) {
  if (budget % step != 0) {
    const std::int64_t below = budget / step * step;
    fail_request("heads.fa_ratio: found ", fa_ratio, ", which is ", budget, " of ", total, " heads; ", what,
                 "; the nearest ratios are ", ratio_text(below, total), " and ", ratio_text(below + step, total));
  }
}

PlanTask make_task(const HeadsConfig& heads, const Qwen3Config& config) {
  const bool groups = heads.unit == HeadUnit::kv_group || heads.budget == HeadBudget::kv_groups;
  PlanTask task{.layers = config.layers,
                .per_layer = groups ? config.kv_heads : config.heads,
                .heads_per_unit = groups ? config.group_size() : 1,
                .budget = 0,
                .kept = {},
                .rule = std::string(rule_name(heads.rule))};
  if (heads.budget == HeadBudget::kv_groups) {
    task.budget = std::llround(heads.fa_ratio * static_cast<double>(config.layers * config.kv_heads));
  } else {
    const std::int64_t all = config.layers * config.heads;
    const std::int64_t budget = std::llround(heads.fa_ratio * static_cast<double>(all));
    require_multiple(budget, task.heads_per_unit, all, heads.fa_ratio,
                     detail::concat("unit kv_group needs whole groups of ", task.heads_per_unit, " heads"));
    task.budget = budget / task.heads_per_unit;
  }
  for (const auto& pair : heads.always_keep) {
    HYDRA_REQUIRE(pair.size() == 2 && pair[0] >= 0 && pair[0] < config.layers && pair[1] >= 0 && pair[1] < config.heads,
                  "heads.always_keep: found [", pair.empty() ? "" : detail::concat(pair[0]),
                  pair.size() < 2 ? "" : detail::concat(", ", pair[1]), "], expected pairs [layer, head] below [",
                  config.layers, ", ", config.heads, "]");
    task.kept.insert({pair[0], pair[1] / task.heads_per_unit});
  }
  HYDRA_REQUIRE(static_cast<std::int64_t>(task.kept.size()) <= task.budget, "heads.always_keep: keeps ",
                task.kept.size(), " ", task.noun(), ", more than the ", task.budget, " of fa_ratio ", heads.fa_ratio);
  return task;
}

void require_one_a_layer(const PlanTask& task, double fa_ratio) {
  HYDRA_REQUIRE(task.budget >= task.layers, "heads.fa_ratio: found ", fa_ratio, ", which is ", task.budget, " of ",
                task.total(), " ", task.noun(), "; rule ", task.rule, " needs at least one in each of ", task.layers,
                " layers; the nearest ratio is ", ratio_text(task.layers, task.total()));
}

// Units of each layer when K is spread evenly: the remainder goes to the first layers.
std::vector<std::int64_t> even_counts(const PlanTask& task, double fa_ratio) {
  require_one_a_layer(task, fa_ratio);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(task.layers), task.budget / task.layers);
  for (std::int64_t i = 0; i < task.budget % task.layers; ++i) {
    ++counts[i];
  }
  return counts;
}

// The first counts[l] units of each layer in `order`.
std::set<Unit> first_of_each_layer(const std::vector<Unit>& order, std::vector<std::int64_t> counts) {
  std::set<Unit> chosen;
  for (const Unit& unit : order) {
    if (counts[unit.layer] > 0) {
      --counts[unit.layer];
      chosen.insert(unit);
    }
  }
  return chosen;
}

// K units: the first `least` of every layer, then the first of all that are left.
std::set<Unit> first_of_all(const PlanTask& task, const std::vector<Unit>& order, std::int64_t least) {
  std::set<Unit> chosen =
      first_of_each_layer(order, std::vector<std::int64_t>(static_cast<std::size_t>(task.layers), least));
  chosen.insert(task.kept.begin(), task.kept.end());
  HYDRA_REQUIRE(static_cast<std::int64_t>(chosen.size()) <= task.budget, "heads.min_per_layer: needs ", chosen.size(),
                " ", task.noun(), " with always_keep, but fa_ratio gives ", task.budget, " of ", task.total(),
                "; the nearest ratio is ", ratio_text(static_cast<std::int64_t>(chosen.size()), task.total()));
  for (const Unit& unit : order) {
    if (static_cast<std::int64_t>(chosen.size()) == task.budget) {
      break;
    }
    chosen.insert(unit);
  }
  return chosen;
}

// The same floor(i U / n) in every layer; a kept unit takes the place of the layer's last unit that is not kept.
std::set<Unit> fixed(const PlanTask& task, const std::vector<std::int64_t>& counts) {
  std::set<Unit> chosen;
  for (std::int64_t layer = 0; layer < task.layers; ++layer) {
    const std::int64_t n = counts[layer];
    std::set<Unit> own;
    for (std::int64_t i = 0; i < n; ++i) {
      own.insert({layer, i * task.per_layer / n});
    }
    for (const Unit& unit : task.kept) {
      if (unit.layer != layer || !own.insert(unit).second) {
        continue;
      }
      const auto last = std::find_if(own.rbegin(), own.rend(), [&](const Unit& u) { return task.kept.count(u) == 0; });
      HYDRA_REQUIRE(last != own.rend(), "heads.always_keep: layer ", layer, " has room for ", n, " ", task.noun(),
                    " under rule fixed");
      own.erase(std::next(last).base());
    }
    chosen.merge(own);
  }
  return chosen;
}

std::set<Unit> whole_layers(const PlanTask& task, const HeadsConfig& heads, const HeadScores* scores) {
  std::vector<std::int64_t> layers = heads.layer_list;
  if (heads.layers == "even" || heads.layers == "scores") {
    require_multiple(task.budget, task.per_layer, task.total(), heads.fa_ratio,
                     detail::concat("rule layer_wise needs whole layers of ", task.per_layer));
    const std::int64_t n = task.budget / task.per_layer;
    layers.clear();
    if (heads.layers == "scores") {
      layers = scored_layers(task, *scores);
      layers.resize(static_cast<std::size_t>(n));
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        layers.push_back((2 * i + 1) * task.layers / (2 * n));  // floor((i + 1/2) L / n)
      }
    }
  } else if (static_cast<std::int64_t>(layers.size()) * task.per_layer != task.budget) {
    log_info("heads.layers lists ", layers.size(), " of ", task.layers, " layers: they decide, not fa_ratio ",
             heads.fa_ratio);
  }
  std::set<Unit> chosen;
  for (const std::int64_t layer : layers) {
    HYDRA_REQUIRE(layer >= 0 && layer < task.layers, "heads.layers: found layer ", layer, ", expected 0 to ",
                  task.layers - 1);
    HYDRA_REQUIRE(chosen.count({layer, 0}) == 0, "heads.layers: layer ", layer, " stands twice");
    for (std::int64_t index = 0; index < task.per_layer; ++index) {
      chosen.insert({layer, index});
    }
  }
  return chosen;
}

std::set<Unit> choose(const PlanTask& task, const HeadsConfig& heads, std::int64_t seed, const HeadScores* scores) {
  const std::int64_t least = (heads.min_per_layer + task.heads_per_unit - 1) / task.heads_per_unit;
  switch (heads.rule) {
    case HeadRule::fixed: return fixed(task, even_counts(task, heads.fa_ratio));
    case HeadRule::layer_random:
      return first_of_each_layer(random_order(task, seed), even_counts(task, heads.fa_ratio));
    case HeadRule::layer_interp:
      return first_of_each_layer(scored_order(task, *scores), even_counts(task, heads.fa_ratio));
    case HeadRule::global_random: return first_of_all(task, random_order(task, seed), least);
    case HeadRule::global_interp: return first_of_all(task, scored_order(task, *scores), least);
    case HeadRule::global_interp_c:
      require_one_a_layer(task, heads.fa_ratio);
      return first_of_all(task, scored_order(task, *scores), std::max<std::int64_t>(least, 1));
    case HeadRule::layer_wise: return whole_layers(task, heads, scores);
  }
  HYDRA_CHECK(false, "unknown rule");
}

}  // namespace

std::string_view rule_name(HeadRule rule) {
  switch (rule) {
    case HeadRule::fixed: return "fixed";
    case HeadRule::layer_random: return "layer_random";
    case HeadRule::layer_interp: return "layer_interp";
    case HeadRule::global_random: return "global_random";
    case HeadRule::global_interp: return "global_interp";
    case HeadRule::global_interp_c: return "global_interp_c";
    case HeadRule::layer_wise: return "layer_wise";
  }
  return "";
}

bool needs_scores(const HeadsConfig& heads) {
  return heads.plan.empty() &&
         (heads.rule == HeadRule::layer_interp || heads.rule == HeadRule::global_interp ||
          heads.rule == HeadRule::global_interp_c || (heads.rule == HeadRule::layer_wise && heads.layers == "scores"));
}

HeadPlan plan_by_rule(const HeadsConfig& heads, const Qwen3Config& config, std::int64_t seed,
                      const HeadScores* scores) {
  HYDRA_REQUIRE(scores != nullptr || !needs_scores(heads), "heads.rule: ", rule_name(heads.rule),
                heads.rule == HeadRule::layer_wise ? " with layers: scores" : "",
                " needs the scores.json that `hydrahead select` writes; heads.scores: found no file ",
                heads.scores.string());
  if (scores != nullptr) {
    HYDRA_CHECK(static_cast<std::int64_t>(scores->layers.size()) == config.layers, "scores of another model");
  }
  HYDRA_REQUIRE(heads.min_per_layer <= config.heads, "heads.min_per_layer: found ", heads.min_per_layer,
                ", expected at most the ", config.heads, " heads of a layer");
  const PlanTask task = make_task(heads, config);
  const std::set<Unit> chosen = choose(task, heads, seed, scores);
  for (const Unit& unit : task.kept) {
    HYDRA_REQUIRE(chosen.count(unit) > 0, "heads.always_keep: layer ", unit.layer, " has no room for ",
                  task.heads_per_unit == 1 ? "head " : "KV group ", unit.index, " under rule ", task.rule);
  }
  Lists fa_heads(static_cast<std::size_t>(config.layers));
  for (const Unit& unit : chosen) {
    for (std::int64_t i = 0; i < task.heads_per_unit; ++i) {
      fa_heads[unit.layer].push_back(unit.index * task.heads_per_unit + i);
    }
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    HYDRA_REQUIRE(static_cast<std::int64_t>(fa_heads[layer].size()) >= heads.min_per_layer,
                  "heads.min_per_layer: rule ", task.rule, " gives layer ", layer, " ", fa_heads[layer].size(),
                  " heads, expected at least ", heads.min_per_layer);
  }
  HeadPlan plan = make_plan(config, fa_heads, "rule " + task.rule);
  plan.rule = task.rule;
  plan.seed = seed;
  return plan;
}

}  // namespace hydra::model
