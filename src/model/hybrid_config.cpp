#include "hydrahead/model/hybrid_config.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "hydrahead/base/error.hpp"

namespace hydra::model {
namespace {

template <class E>
using Names = std::initializer_list<config::EnumName<E>>;

// One table an option: the words of the YAML file and of config.json are the same.
const Names<BranchWeights> branch_weights_names = {{BranchWeights::separate, "separate"},
                                                   {BranchWeights::shared, "shared"}};
const Names<FaGate> fa_gate_names = {
    {FaGate::elementwise, "elementwise"}, {FaGate::headwise, "headwise"}, {FaGate::none, "none"}};
const Names<LogScaleMode> log_scale_names = {{LogScaleMode::inference, "inference"},
                                             {LogScaleMode::stage3_and_inference, "stage3+inference"},
                                             {LogScaleMode::off, "off"}};
const Names<GdnGate> gdn_gate_names = {{GdnGate::sigmoid, "sigmoid"}, {GdnGate::silu, "silu"}, {GdnGate::none, "none"}};
const Names<KvExpand> kv_expand_names = {{KvExpand::mha, "mha"}, {KvExpand::gqa, "gqa"}};
const Names<GdnInit> gdn_init_names = {{GdnInit::calibrated, "calibrated"}, {GdnInit::random, "random"}};
const Names<ConvActivation> activation_names = {{ConvActivation::none, "none"}, {ConvActivation::silu, "silu"}};
const Names<FusionMode> fusion_names = {
    {FusionMode::scale, "scale"}, {FusionMode::none, "none"}, {FusionMode::gated, "gated"}};
const Names<GatePosition> gate_position_names = {{GatePosition::post_norm, "post_norm"},
                                                 {GatePosition::pre_norm, "pre_norm"}};
const Names<GammaInit> gamma_init_names = {{GammaInit::calibrated, "calibrated"}, {GammaInit::one, "one"}};

template <class E>
std::string name_of(E value, Names<E> names) {
  for (const auto& entry : names) {
    if (entry.value == value) {
      return std::string(entry.name);
    }
  }
  HYDRA_CHECK(false, "an enumerator without a name");
  return {};
}

// A JSON object whose keys must all be asked for; messages carry the dotted path.
class StrictObject {
 public:
  StrictObject(const Json& parent, const std::string& key, const std::string& where)
      : where_(where), path_(key.empty() ? key : key + "."), object_(key.empty() ? parent : child(parent, key)) {}

  const Json& at(const std::string& key) {
    used_.insert(key);
    return child(object_, key);
  }
  bool has(const std::string& key) const { return object_.contains(key); }

  template <class E>
  void choice(const std::string& key, E& value, Names<E> names) {
    const Json& found = at(key);
    std::string words;
    for (const auto& entry : names) {
      if (found.is_string() && found.get_ref<const std::string&>() == entry.name) {
        value = entry.value;
        return;
      }
      words += (words.empty() ? "" : ", ") + std::string(entry.name);
    }
    refuse(key, found, "one of " + words);
  }
  void flag(const std::string& key, bool& value) {
    const Json& found = at(key);
    if (!found.is_boolean()) {
      refuse(key, found, "true or false");
    }
    value = found.get<bool>();
  }
  void positive(const std::string& key, double& value) {
    const Json& found = at(key);
    if (!found.is_number() || !(found.get<double>() > 0)) {
      refuse(key, found, "a number above 0");
    }
    value = found.get<double>();
  }
  [[noreturn]] void refuse(const std::string& key, const Json& found, const std::string& expected) const {
    fail_request(where_, ": ", path_, key, ": found ", found.dump(), ", expected ", expected);
  }
  void done() const {
    for (const auto& [key, value] : object_.items()) {
      HYDRA_REQUIRE(used_.contains(key), where_, ": ", path_, key, ": unknown key");
    }
  }

 private:
  const Json& child(const Json& parent, const std::string& key) const {
    HYDRA_REQUIRE(parent.is_object() && parent.contains(key), where_, ": ", path_, key, " is missing");
    return parent.at(key);
  }
  std::string where_, path_;
  const Json& object_;
  std::set<std::string> used_;
};

FaConfig read_fa(const Json& config, const std::string& where) {
  FaConfig fa;
  StrictObject object(config, "fa", where);
  object.choice("gate", fa.gate, fa_gate_names);
  object.flag("rope", fa.rope);
  const Json& bias = object.at("gate_bias");
  fa.gate_has_bias = bias.is_number();
  if (fa.gate_has_bias) {
    fa.gate_bias = bias.get<double>();
  } else if (bias != "none") {
    object.refuse("gate_bias", bias, "none or a number");
  }
  object.done();
  StrictObject scale(config, "log_scale", where);
  scale.choice("mode", fa.log_scale.mode, log_scale_names);
  scale.positive("a", fa.log_scale.a);
  if (fa.log_scale.a <= 1) {
    scale.refuse("a", scale.at("a"), "a number above 1");
  }
  scale.done();
  return fa;
}

GdnConfig read_gdn(const Json& config, const std::string& where) {
  GdnConfig gdn;
  StrictObject object(config, "gdn", where);
  object.choice("gate", gdn.gate, gdn_gate_names);
  object.flag("rope", gdn.rope);
  object.flag("qk_norm", gdn.qk_norm);
  object.choice("kv_expand", gdn.kv_expand, kv_expand_names);
  object.flag("neg_eigval", gdn.neg_eigval);
  StrictObject conv(object.at("conv"), "", where + ": gdn.conv");
  const Json& kernel = conv.at("kernel");
  if (kernel != 0 && kernel != 4) {
    conv.refuse("kernel", kernel, "0 or 4");
  }
  gdn.conv.kernel = kernel.get<std::int64_t>();
  if (conv.has("activation")) {
    conv.choice("activation", gdn.conv.activation, activation_names);
  }
  conv.done();
  object.done();
  return gdn;
}

}  // namespace

static void describe(config::Binder& binder, LogScaleConfig& value) {
  binder.choice(
      "mode", value.mode, log_scale_names,
      {"Where the queries of full-attention heads are multiplied by s_t = ln(t + a) / ln(a): in generate, eval "
       "and ppl only, also in the long_context stage, or nowhere."});
  binder.field("a", value.a, {.text = "The constant a of s_t.", .unit = "tokens", .min = 2, .max = 1e9});
  binder.no_effect("a", value.mode == LogScaleMode::off, "mode is off");
}

static void describe(config::Binder& binder, FaConfig& value) {
  binder.field("rope", value.rope, {"Rotary positions in full-attention heads (false: NoPE)."});
  binder.choice("gate", value.gate, fa_gate_names,
                {"Sigmoid gate of each full-attention head: a value a channel, a head, or none."});
  std::optional<double> bias = value.gate_has_bias ? std::optional(value.gate_bias) : std::nullopt;
  binder.number_or_word("gate_bias", bias, "none",
                        {.text = "Learned bias of the gate and its start.", .min = -100, .max = 100});
  value.gate_has_bias = bias.has_value();
  value.gate_bias = bias.value_or(0.0);
  binder.no_effect("gate_bias", value.gate == FaGate::none, "gate is none");
  binder.section("log_scale", value.log_scale, "Position-dependent scale of the queries (method.md 4.1).");
}

static void describe(config::Binder& binder, ConvConfig& value) {
  binder.field("kernel", value.kernel,
               {.text = "Taps of the causal depthwise convolution on q, k, v: 0 (off) or 4.",
                .unit = "tokens",
                .min = 0,
                .max = 4});
  binder.require(value.kernel == 0 || value.kernel == 4, "kernel", "expected 0 or 4");
  binder.choice("activation", value.activation, activation_names, {"After the convolution."});
  binder.no_effect("activation", value.kernel == 0, "kernel is 0");
}

static void describe(config::Binder& binder, GdnConfig& value) {
  binder.choice("gate", value.gate, gdn_gate_names, {"Output gate of each GDN head."});
  binder.field("rope", value.rope, {"Rotary positions on q and k of GDN heads, with the teacher's base."});
  binder.field("qk_norm", value.qk_norm, {"The teacher's q_norm and k_norm in GDN heads."});
  binder.choice("kv_expand", value.kv_expand, kv_expand_names,
                {"mha: k and v of their own for each head, copied from its group; gqa: the teacher's KV heads."});
  binder.field("neg_eigval", value.neg_eigval, {"beta = 2 sigmoid(.), which admits negative eigenvalues."});
  binder.choice("init", value.init, gdn_init_names,
                {"Start of the decay and of beta: from the teacher's attention, or HALO's random values."});
  binder.section("conv", value.conv, "Short convolution (method.md 4.2).");
}

static void describe(config::Binder& binder, FusionConfig& value) {
  binder.choice("mode", value.mode, fusion_names,
                {"How head outputs are joined: gamma * RMSNorm, nothing, or also a softmax over heads."});
  binder.choice("gate_pos", value.gate_pos, gate_position_names, {"The gate after or before the norm."});
  binder.no_effect("gate_pos", value.mode == FusionMode::none, "mode is none");
  binder.field("eps", value.eps, {.text = "Of the per-head RMSNorm.", .min = 1e-12, .max = 1});
  binder.choice("gamma_init", value.gamma_init, gamma_init_names,
                {"Start of gamma: the teacher's amplitude of each head, or one."});
  binder.no_effect("gamma_init", value.mode == FusionMode::none, "mode is none");
}

void describe(config::Binder& binder, HybridConfig& value) {
  binder.choice("branch_weights", value.branch_weights, branch_weights_names,
                {"Whether the branches have q, k, v weights of their own."});
  binder.section("fa", value.fa, "Full-attention branch (method.md 4.1).");
  binder.section("gdn", value.gdn, "Gated DeltaNet branch (method.md 4.2).");
  binder.section("fusion", value.fusion, "Joining the branches (method.md 4.3).");
}

Json write_hybrid_json(const HybridConfig& config) {
  Json json;
  json["log_scale"] = {{"a", config.fa.log_scale.a}, {"mode", name_of(config.fa.log_scale.mode, log_scale_names)}};
  json["gdn"] = {
      {"conv",
       {{"kernel", config.gdn.conv.kernel}, {"activation", name_of(config.gdn.conv.activation, activation_names)}}},
      {"neg_eigval", config.gdn.neg_eigval},
      {"gate", name_of(config.gdn.gate, gdn_gate_names)},
      {"rope", config.gdn.rope},
      {"qk_norm", config.gdn.qk_norm},
      {"kv_expand", name_of(config.gdn.kv_expand, kv_expand_names)}};
  json["fusion"] = {{"mode", name_of(config.fusion.mode, fusion_names)},
                    {"gate_pos", name_of(config.fusion.gate_pos, gate_position_names)},
                    {"eps", config.fusion.eps}};
  json["fa"] = {{"gate", name_of(config.fa.gate, fa_gate_names)},
                {"gate_bias", config.fa.gate_has_bias ? Json(config.fa.gate_bias) : Json("none")},
                {"rope", config.fa.rope}};
  json["branch_weights"] = name_of(config.branch_weights, branch_weights_names);
  return json;
}

HybridConfig read_hybrid_json(const Json& config, const std::string& where) {
  HybridConfig hybrid;
  hybrid.fa = read_fa(config, where);
  hybrid.gdn = read_gdn(config, where);
  StrictObject fusion(config, "fusion", where);
  fusion.choice("mode", hybrid.fusion.mode, fusion_names);
  fusion.choice("gate_pos", hybrid.fusion.gate_pos, gate_position_names);
  fusion.positive("eps", hybrid.fusion.eps);
  fusion.done();
  StrictObject(config, "", where).choice("branch_weights", hybrid.branch_weights, branch_weights_names);
  return hybrid;
}

}  // namespace hydra::model
