#include "hydrahead/select/select_config.hpp"

#include "hydrahead/data/data_config.hpp"

namespace hydra::select {

namespace {

constexpr config::EnumName<Method> methods[] = {{Method::interp, "interp"},
                                                {Method::attribution, "attribution"},
                                                {Method::retrieval_score, "retrieval_score"},
                                                {Method::ablation_zero, "ablation_zero"},
                                                {Method::ablation_mean, "ablation_mean"}};

}  // namespace

std::string method_name(Method method) {
  for (const auto& [value, name] : methods) {
    if (value == method) {
      return std::string(name);
    }
  }
  return "";
}

void describe(config::Binder& binder, CapabilityWeights& value) {
  binder.field("single", value.single, {.text = "Finding one needle.", .min = 0});
  binder.field("multi", value.multi, {.text = "Finding one needle among others.", .min = 0});
  binder.field("general", value.general, {.text = "General ability.", .min = 0});
}

void describe(config::Binder& binder, SelectConfig& value) {
  binder.choice("method", value.method, {methods[0], methods[1], methods[2], methods[3], methods[4]},
                {"How heads are scored (method.md 3.2 to 3.6)."});
  // Those whose answer has a counterfactual: one needle is asked for.
  data::describe_tasks(binder, "probes", value.probes, std::span(data::all_niah_tasks).first(5), {"Sub-probes."});
  binder.field("context", value.context, {.text = "Length of a probe.", .unit = "tokens", .min = 64, .max = 1 << 20});
  binder.field("pairs", value.pairs, {.text = "Counterfactual pairs a sub-probe.", .min = 1, .max = 10000});
  binder.field("min_margin", value.min_margin,
               {.text = "Pairs whose readout falls by less are dropped.", .unit = "logits", .min = 0});
  binder.field("min_kept", value.min_kept,
               {.text = "Share of its pairs that a probe must keep; one that keeps fewer is left out: the teacher does "
                        "not have that ability.",
                .min = 0,
                .max = 1});
  binder.field("decay", value.decay,
               {.text = "lambda of Eq. 9: weight of each later answer token.", .min = 0, .max = 1});
  binder.field("threshold", value.threshold,
               {.text = "Indirect effect from which a head counts as a receiver or sender.", .min = 0, .max = 1});
  binder.choice("direction", value.direction, {{Direction::noising, "noising"}, {Direction::denoising, "denoising"}},
                {"Necessity or sufficiency."});
  binder.choice("metric", value.metric, {{Metric::logit_diff, "logit_diff"}, {Metric::prob, "prob"}},
                {"What the readout compares."});
  binder.choices("sender_paths", value.sender_paths, {{SenderPath::q, "q"}, {SenderPath::k, "k"}, {SenderPath::v, "v"}},
                 {"Receiver inputs that sender patching changes."});
  binder.field("sender_rounds", value.sender_rounds,
               {.text = "Rounds of sender patching; 0: direct effects only.", .min = 0, .max = 100});
  binder.choice("general", value.general, {{GeneralProbes::builtin, "builtin"}, {GeneralProbes::none, "none"}},
                {"Third capability: copying, addition and facts, or nothing."});
  binder.path("general_file", value.general_file,
              {"JSONL rows {clean, corrupt, answer+, answer-} of your own for the third capability. Empty: none."});
  binder.section("weights", value.weights, "Weights of the capabilities in a head's score.");
  binder.section("knockout", value.knockout, "Check of a ranking by removing heads.");
}

}  // namespace hydra::select
