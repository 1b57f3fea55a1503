#pragma once
// Which query heads keep full attention. A plan is a list of head indices a layer; everything else follows from it.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/config/binder.hpp"
#include "hydrahead/model/head_scores.hpp"
#include "hydrahead/model/qwen3_config.hpp"

namespace hydra::model {

// One layer's split, in original head indices.
struct LayerPlan {
  std::vector<std::int64_t> fa_heads;   // ascending
  std::vector<std::int64_t> gdn_heads;  // ascending, the complement
  std::vector<std::int64_t> kv_groups;  // teacher KV heads that FA heads touch, ascending: the stored ones
  std::vector<std::int64_t> kv_index;   // per FA head, into kv_groups
};

struct HeadPlan {
  std::string teacher_sha256, rule;
  std::int64_t seed = 0;
  std::vector<LayerPlan> layers;
  std::int64_t fa_count() const;
  std::int64_t touched_groups() const;
};

enum class HeadRule { fixed, layer_random, layer_interp, global_random, global_interp, global_interp_c, layer_wise };
std::string_view rule_name(HeadRule rule);
enum class HeadUnit { head, kv_group };
enum class HeadBudget { heads, kv_groups };

// The config section `heads`.
struct HeadsConfig {
  std::filesystem::path plan;  // empty: use the rule
  HeadRule rule = HeadRule::fixed;
  bool rule_given = false;
  double fa_ratio = 0.25;
  std::int64_t min_per_layer = 0;
  HeadUnit unit = HeadUnit::head;
  HeadBudget budget = HeadBudget::heads;
  std::string layers = "even";                         // layer_wise: even | scores | list
  std::vector<std::int64_t> layer_list;                // when `layers` is a list
  std::vector<std::vector<std::int64_t>> always_keep;  // [[layer, head], ...]
  std::filesystem::path scores = "scores.json";
};
void describe(config::Binder& binder, HeadsConfig& value);

// Checks length, range and duplicates; `where` stands in messages.
HeadPlan make_plan(const Qwen3Config& config, const std::vector<std::vector<std::int64_t>>& fa_heads,
                   const std::string& where);

// The keys fa_heads, kv_groups and kv_index of an exported config.json; the last two must follow from the first.
HeadPlan read_plan_json(const Json& json, const Qwen3Config& config, const std::string& where);
void write_plan_json(Json& json, const HeadPlan& plan);

// Whether plan_by_rule needs head scores for this.
bool needs_scores(const HeadsConfig& heads);
// method.md 3.5. Rules that need scores refuse without them and name `select`; infeasible budgets name the nearest
// ratios.
HeadPlan plan_by_rule(const HeadsConfig& heads, const Qwen3Config& config, std::int64_t seed,
                      const HeadScores* scores = nullptr);

// heads.yaml: {version: 1, teacher_sha256, rule, seed, heads: [[...], ...]}. teacher_sha256 "" skips that check.
HeadPlan read_plan(const std::filesystem::path& file, const Qwen3Config& config, const std::string& teacher_sha256);
std::string plan_text(const HeadPlan& plan);  // the file's content
void write_plan(const std::filesystem::path& file, const HeadPlan& plan);

// KV bytes per token and constant state bytes of a plan (method.md 3.7, section 9).
struct CacheBytes {
  std::int64_t kv_per_token = 0;
  std::int64_t constant = 0;  // GDN states and convolution tails
};
CacheBytes cache_bytes(const Qwen3Config& config, const HeadPlan& plan, std::int64_t kv_element_bytes,
                       std::int64_t state_element_bytes, bool conv);

}  // namespace hydra::model
