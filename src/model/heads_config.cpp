// The config sections `heads` and `calibration` (method.md 3.5 and 4.4).

#include "hydrahead/model/calibration_config.hpp"
#include "hydrahead/model/head_plan.hpp"

namespace hydra::model {

void describe(config::Binder& binder, HeadsConfig& value) {
  binder.path("plan", value.plan, {"A heads.yaml file: the full-attention heads of each layer. Excludes `rule`."});
  if (!binder.writing() || value.plan.empty()) {  // the two must not stand together
    binder.choice("rule", value.rule,
                  {{HeadRule::fixed, "fixed"},
                   {HeadRule::layer_random, "layer_random"},
                   {HeadRule::layer_interp, "layer_interp"},
                   {HeadRule::global_random, "global_random"},
                   {HeadRule::global_interp, "global_interp"},
                   {HeadRule::global_interp_c, "global_interp_c"},
                   {HeadRule::layer_wise, "layer_wise"}},
                  {"How the heads that keep full attention are chosen (method.md 3.5)."});
  }
  value.rule_given = value.rule_given || binder.given("rule");
  binder.require(value.plan.empty() || !value.rule_given, "plan",
                 "a plan and a rule are both given; expected one of them");
  binder.field("fa_ratio", value.fa_ratio, {.text = "Share of heads that keep full attention.", .min = 0, .max = 1});
  binder.field("min_per_layer", value.min_per_layer,
               {.text = "Heads that every layer keeps at least.", .unit = "heads", .min = 0, .max = 1024});
  binder.choice("unit", value.unit, {{HeadUnit::head, "head"}, {HeadUnit::kv_group, "kv_group"}},
                {"What is chosen: single heads, or all heads of a KV group."});
  binder.choice("budget", value.budget, {{HeadBudget::heads, "heads"}, {HeadBudget::kv_groups, "kv_groups"}},
                {"What fa_ratio counts: heads, or KV groups that hold one."});
  binder.list_or_word("layers", value.layers, value.layer_list, {"even", "scores"},
                      {"Layers of rule layer_wise: evenly spaced, by score, or a list."});
  binder.field("always_keep", value.always_keep, {"[layer, head] pairs that keep full attention in any case."});
  bool pairs = true;
  for (const auto& pair : value.always_keep) {
    pairs = pairs && pair.size() == 2 && pair[0] >= 0 && pair[1] >= 0;
  }
  binder.require(pairs, "always_keep", "expected pairs [layer, head] of numbers >= 0");
  binder.path("scores", value.scores, {"Head scores that `hydrahead select` wrote, for the rules that need them."});
  for (const char* key : {"fa_ratio", "min_per_layer", "unit", "budget", "layers", "always_keep", "scores"}) {
    binder.no_effect(key, !value.plan.empty(), "heads.plan names every head");
  }
  binder.no_effect("layers", value.plan.empty() && value.rule != HeadRule::layer_wise, "rule is not layer_wise");
}

void describe(config::Binder& binder, CalibrationConfig& value) {
  binder.token_count(
      "tokens", value.tokens,
      {.text = "Text that the teacher's statistics are taken from, of data.sources.", .unit = "tokens", .min = 1});
  binder.field("context", value.context,
               {.text = "Tokens a row; cut to the teacher's window.", .unit = "tokens", .min = 2});
}

}  // namespace hydra::model
