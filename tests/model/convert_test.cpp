#include "hydrahead/model/convert.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "hydrahead/io/safetensors.hpp"

namespace hydra::model {
namespace {

const std::string fixtures = HYDRA_FIXTURES;

// The plan of the reference case: layer 3 without FA heads, layer 4 with FA heads only, the others mixed.
const std::vector<std::vector<std::int64_t>> reference_heads{{2, 3}, {0}, {2}, {}, {0, 1, 2, 3}, {2}};

CalibrationTokens reference_tokens(const io::SafetensorsFile& golden) {
  const at::Tensor ids = golden.load("input_ids").to(at::kInt).contiguous();
  CalibrationTokens tokens;
  for (std::int64_t b = 0; b < ids.size(0); ++b) {
    const auto* row = ids.const_data_ptr<std::int32_t>() + b * ids.size(1);
    tokens.sequences.emplace_back(row, row + ids.size(1));
  }
  return tokens;
}

Conversion convert_nano(const HybridConfig& options, const std::vector<std::vector<std::int64_t>>& heads,
                        at::ScalarType type = at::kFloat) {
  LoadOptions load;
  load.parameter_type = load.compute_type = type;
  const Model teacher = load_model(fixtures + "/qwen3-nano", load);
  const auto golden = io::SafetensorsFile::open(fixtures + "/golden/calibrated-nano.safetensors");
  return convert(teacher, make_plan(teacher.config.base, heads, "test"), options, reference_tokens(golden), 0);
}

TEST(Convert, CalibratedValuesEqualTheReference) {
  Conversion conversion = convert_nano({}, reference_heads);
  const auto golden = io::SafetensorsFile::open(fixtures + "/golden/calibrated-nano.safetensors");
  int compared = 0;
  for (const Parameter& parameter : parameters(conversion.hybrid)) {
    if (!golden.contains("init." + parameter.name)) {
      continue;
    }
    at::Tensor expected = golden.load("init." + parameter.name).to(at::kDouble);
    at::Tensor found = parameter.tensor->to(at::kDouble);
    // The reference stores the bias of b in the checkpoint's type.
    if (parameter.name.ends_with("b_proj.bias")) {
      found = found.to(at::kBFloat16).to(at::kDouble);
    }
    const double error = (found - expected).norm().item<double>() / std::max(expected.norm().item<double>(), 1e-12);
    EXPECT_LE(error, expected.norm().item<double>() == 0.0 ? 0.0 : 1e-4) << parameter.name;
    ++compared;
  }
  EXPECT_EQ(compared, 21);  // gamma of 6 layers, A_log, dt_bias and the bias of b of 5
}

TEST(Convert, NewParametersAreListedAndNothingElseChanges) {
  Conversion conversion = convert_nano({}, reference_heads);
  LoadOptions load;
  Model teacher = load_model(fixtures + "/qwen3-nano", load);
  std::set<std::string> listed;
  for (const NewParameter& parameter : conversion.new_parameters) {
    EXPECT_FALSE(parameter.initial_value.empty());
    listed.insert(parameter.name);
  }
  EXPECT_TRUE(listed.count("model.layers.0.self_attn.fa.g_proj.weight"));
  EXPECT_TRUE(listed.count("model.layers.4.self_attn.gamma"));
  EXPECT_FALSE(listed.count("model.layers.4.self_attn.gdn.A_log"));  // no GDN head there
  std::map<std::string, at::Tensor> before;
  for (const Parameter& parameter : parameters(teacher)) {
    before[parameter.name] = *parameter.tensor;
  }
  for (const Parameter& parameter : parameters(conversion.hybrid)) {
    const auto found = before.find(parameter.name);
    if (found != before.end()) {
      EXPECT_TRUE(at::equal(*parameter.tensor, found->second)) << parameter.name;
      EXPECT_FALSE(parameter.tensor->is_alias_of(found->second)) << parameter.name;
    } else if (!listed.count(parameter.name)) {
      EXPECT_TRUE(parameter.name.find(".self_attn.fa.") != std::string::npos ||
                  parameter.name.find(".self_attn.gdn.") != std::string::npos)
          << parameter.name;
    }
  }
}

// method.md section 5: with every head FA, RoPE on, no gate, no norm and no log scale the teacher comes back, bit for
// bit.
TEST(Convert, IdentityWithAllHeadsFull) {
  HybridConfig options;
  options.fa.rope = true;
  options.fa.gate = FaGate::none;
  options.fa.log_scale.mode = LogScaleMode::off;
  options.fusion.mode = FusionMode::none;
  const std::vector<std::vector<std::int64_t>> all(6, {0, 1, 2, 3});
  const Conversion conversion = convert_nano(options, all);
  LoadOptions load;
  const Model teacher = load_model(fixtures + "/qwen3-nano", load);
  const at::Tensor ids = at::arange(7, 7 + 300, at::kLong);
  const auto sequences = ops::make_sequences({100, 200}, at::kCPU);
  const at::Tensor expected = forward_hidden(teacher, ids, sequences);
  EXPECT_TRUE(at::equal(forward_hidden(conversion.hybrid, ids, sequences), expected));
}

TEST(Convert, EveryOptionGivesFiniteModels) {
  const auto finite = [](const HybridConfig& options) {
    const Conversion conversion = convert_nano(options, reference_heads);
    const at::Tensor ids = at::arange(100, 300, at::kLong);
    const auto sequences = ops::make_sequences({200}, at::kCPU);
    return at::isfinite(logits_of(conversion.hybrid, forward_hidden(conversion.hybrid, ids, sequences)))
        .all()
        .item<bool>();
  };
  HybridConfig silu;
  silu.gdn.gate = GdnGate::silu;
  EXPECT_TRUE(finite(silu));
  HybridConfig shared;
  shared.branch_weights = BranchWeights::shared;
  EXPECT_TRUE(finite(shared));
  shared.gdn.kv_expand = KvExpand::gqa;
  EXPECT_TRUE(finite(shared));
  HybridConfig random;
  random.gdn.init = GdnInit::random;
  random.fusion.gamma_init = GammaInit::one;
  EXPECT_FALSE(needs_calibration(random));
  EXPECT_TRUE(finite(random));
  HybridConfig conv;
  conv.gdn.conv.kernel = 4;
  conv.gdn.neg_eigval = true;
  conv.fusion.mode = FusionMode::gated;
  EXPECT_TRUE(finite(conv));
  HybridConfig headwise;
  headwise.fa.gate = FaGate::headwise;
  headwise.fa.gate_has_bias = true;
  headwise.fa.gate_bias = 1.0;
  headwise.fusion.gate_pos = GatePosition::pre_norm;
  EXPECT_TRUE(finite(headwise));
}

TEST(Convert, RefusesAHybrid) {
  Conversion conversion = convert_nano({}, reference_heads);
  const auto plan = make_plan(conversion.hybrid.config.base, reference_heads, "test");
  EXPECT_THROW(convert(conversion.hybrid, plan, {}, {}, 0), UserError);
}

TEST(Convert, RefusesCalibrationIdsOutsideTheVocabulary) {
  LoadOptions load;
  const Model teacher = load_model(fixtures + "/qwen3-nano", load);
  const auto plan = make_plan(teacher.config.base, reference_heads, "test");
  EXPECT_THROW(convert(teacher, plan, {}, CalibrationTokens{{{1, 2, 5000}}}, 0), UserError);
  EXPECT_THROW(convert(teacher, plan, {}, CalibrationTokens{}, 0), UserError);
}

}  // namespace
}  // namespace hydra::model
