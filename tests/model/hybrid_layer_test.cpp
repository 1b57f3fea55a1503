// The hybrid layer under every option: against the formulas, finite differences, packing, the cache, and the teacher.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "hydrahead/model/decode_state.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "tests/model/layer_reference.hpp"
#include "tests/support/compare.hpp"

namespace hydra::model {
namespace {

const std::vector<std::int64_t> kLengths = {5, 1, 9};

struct Variant {
  std::string name;
  HybridConfig options;
  bool attention_bias = false;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  const auto add = [&](const std::string& name, auto change, bool bias = false) {
    Variant variant{name, {}, bias};
    change(variant.options);
    all.push_back(variant);
  };
  const auto conv = [](HybridConfig& o, ConvActivation activation) {
    o.gdn.conv.kernel = 4;
    o.gdn.conv.activation = activation;
  };
  add("default", [](HybridConfig&) {});
  add(
      "attention_bias", [](HybridConfig&) {}, true);
  add("fa_rope", [](HybridConfig& o) { o.fa.rope = true; });
  add("fa_gate_headwise", [](HybridConfig& o) { o.fa.gate = FaGate::headwise; });
  add("fa_gate_none", [](HybridConfig& o) { o.fa.gate = FaGate::none; });
  add("fa_gate_bias", [](HybridConfig& o) { o.fa.gate_has_bias = true; });
  add("gdn_gate_silu", [](HybridConfig& o) { o.gdn.gate = GdnGate::silu; });
  add("gdn_gate_none", [](HybridConfig& o) { o.gdn.gate = GdnGate::none; });
  add("gdn_no_rope", [](HybridConfig& o) { o.gdn.rope = false; });
  add("gdn_no_qk_norm", [](HybridConfig& o) { o.gdn.qk_norm = false; });
  add("gdn_neg_eigval", [](HybridConfig& o) { o.gdn.neg_eigval = true; });
  add("gdn_gqa", [](HybridConfig& o) { o.gdn.kv_expand = KvExpand::gqa; });
  add("conv", [&](HybridConfig& o) { conv(o, ConvActivation::none); });
  add("conv_silu_gqa", [&](HybridConfig& o) {
    conv(o, ConvActivation::silu);
    o.gdn.kv_expand = KvExpand::gqa;
  });
  add("fusion_none", [](HybridConfig& o) { o.fusion.mode = FusionMode::none; });
  add("fusion_gated", [](HybridConfig& o) { o.fusion.mode = FusionMode::gated; });
  add("pre_norm_headwise", [](HybridConfig& o) {
    o.fusion.gate_pos = GatePosition::pre_norm;
    o.fa.gate = FaGate::headwise;
  });
  add("pre_norm_gated", [](HybridConfig& o) {
    o.fusion.gate_pos = GatePosition::pre_norm;
    o.fusion.mode = FusionMode::gated;
  });
  add(
      "shared", [](HybridConfig& o) { o.branch_weights = BranchWeights::shared; }, true);
  add(
      "shared_gqa_conv",
      [&](HybridConfig& o) {
        o.branch_weights = BranchWeights::shared;
        o.gdn.kv_expand = KvExpand::gqa;
        conv(o, ConvActivation::none);
      },
      true);
  return all;
}

// Three layers: mixed and irregular against the KV groups, no FA head, FA heads only. fp64.
Model tiny_model(const Variant& variant) {
  ModelConfig config;
  config.base.vocab_size = 37;
  config.base.hidden_size = 20;
  config.base.intermediate_size = 24;
  config.base.layers = 3;
  config.base.heads = 6;
  config.base.kv_heads = 3;
  config.base.head_dim = 8;
  config.base.max_position = 64;
  config.base.rms_norm_eps = 1e-3;
  config.base.tie_word_embeddings = true;
  config.base.attention_bias = variant.attention_bias;
  config.base.rope.theta = 100.0;
  config.base.dtype = "float32";
  config.hybrid = variant.options;
  config.hybrid->fa.log_scale.a = 10.0;
  config.hybrid->fusion.eps = 0.01;  // O_1 = beta (k.q) v of a sequence can be tiny: 1e-6 would bend too sharply
  config.plan = make_plan(config.base, {{1, 4, 5}, {}, {0, 1, 2, 3, 4, 5}}, "test");
  return random_model(config, {at::kCPU, at::kDouble, at::kDouble}, 11);
}

at::Tensor some_ids() { return at::remainder(at::arange(15, at::kLong) * 17 + 3, 37); }

// For gtest's messages.
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class HybridLayer : public ::testing::TestWithParam<Variant> {
 protected:
  // The tensors are tiny: threads only wait for each other.
  void SetUp() override {
    at::set_num_threads(1);
    at::manual_seed(5);
  }
  void TearDown() override { at::set_num_threads(threads_); }
  const int threads_ = at::get_num_threads();
};
INSTANTIATE_TEST_SUITE_P(Options, HybridLayer, ::testing::ValuesIn(variants()),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(HybridLayer, FollowsTheFormulas) {
  const at::NoGradGuard no_grad;
  const Model model = tiny_model(GetParam());
  const auto sequences = ops::make_sequences(kLengths, at::kCPU);
  const RotaryTables tables = rotary_tables(model, sequences);
  const at::Tensor x = at::randn({15, 20}, at::kDouble);
  for (const bool log_scale : {false, true}) {
    ForwardOptions options;
    options.log_scale = log_scale;
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      std::vector<at::Tensor> expected;
      for (std::int64_t s = 0; s < sequences.count(); ++s) {
        const at::Tensor rows = x.narrow(0, sequences.offsets[s], sequences.length(s));
        expected.push_back(test::ReferenceSublayer(model, layer, rows, log_scale).output());
      }
      EXPECT_TRUE(
          hydra::test::close(attention_sublayer(model, layer, x, sequences, tables, options), at::cat(expected), 1e-7))
          << "layer " << layer;
    }
  }
}

TEST_P(HybridLayer, GradientsMatchFiniteDifferences) {
  Model model = tiny_model(GetParam());
  const auto sequences = ops::make_sequences(kLengths, at::kCPU);
  const at::Tensor ids = some_ids();
  const at::Tensor weight = at::randn({15, 20}, at::kDouble);
  ForwardOptions options;
  options.log_scale = true;
  const auto loss = [&] { return (forward_hidden(model, ids, sequences, options) * weight).sum(); };
  for (const Parameter& parameter : parameters(model)) {
    parameter.tensor->requires_grad_(true);
  }
  loss().backward();
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : parameters(model)) {
    ASSERT_TRUE(parameter.tensor->grad().defined()) << parameter.name;
    const at::Tensor direction = at::randn_like(*parameter.tensor);
    const double expected = (parameter.tensor->grad() * direction).sum().item<double>();
    constexpr double step = 1e-6;
    parameter.tensor->add_(direction, step);
    const double above = loss().item<double>();
    parameter.tensor->sub_(direction, 2 * step);
    const double below = loss().item<double>();
    parameter.tensor->add_(direction, step);
    const double scale = parameter.tensor->grad().norm().item<double>() * direction.norm().item<double>();
    EXPECT_NEAR((above - below) / (2 * step), expected, 1e-6 * scale + 1e-8) << parameter.name;
  }
}

TEST_P(HybridLayer, PackedEqualsSeparate) {
  const at::NoGradGuard no_grad;
  const Model model = tiny_model(GetParam());
  const at::Tensor ids = some_ids();
  const auto sequences = ops::make_sequences(kLengths, at::kCPU);
  std::vector<at::Tensor> separate;
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    separate.push_back(forward_hidden(model, ids.narrow(0, sequences.offsets[s], sequences.length(s)),
                                      ops::make_sequences({sequences.length(s)}, at::kCPU)));
  }
  EXPECT_TRUE(hydra::test::close(forward_hidden(model, ids, sequences), at::cat(separate), 1e-12));
}

TEST_P(HybridLayer, CacheEqualsOnePass) {
  const at::NoGradGuard no_grad;
  const Model model = tiny_model(GetParam());
  const at::Tensor ids = some_ids();
  ForwardOptions options;
  options.log_scale = true;
  const at::Tensor whole = forward_hidden(model, ids, ops::make_sequences({15}, at::kCPU), options);
  DecodeState state = make_decode_state(model, 1, StateType::fp32);
  std::int64_t begin = 0;
  for (const std::int64_t rows : {4, 1, 1, 7, 2}) {
    const at::Tensor last = advance(model, state, ids.narrow(0, begin, rows), {rows}, true);
    begin += rows;
    EXPECT_TRUE(hydra::test::close(last, whole.narrow(0, begin - 1, 1), 1e-12)) << "after " << begin;
  }
}

TEST(HybridSublayer, LogScaleChangesFullAttentionOnly) {
  at::manual_seed(5);
  const at::NoGradGuard no_grad;
  const Model model = tiny_model({"default", {}});
  const auto sequences = ops::make_sequences({15}, at::kCPU);
  const RotaryTables tables = rotary_tables(model, sequences);
  EXPECT_EQ(tables.log_scale[0].item<double>(), 1.0);
  EXPECT_DOUBLE_EQ(tables.log_scale[14].item<double>(), std::log(24.0) / std::log(10.0));
  ForwardOptions scaled;
  scaled.log_scale = true;
  const at::Tensor x = at::randn({15, 20}, at::kDouble);
  const auto difference = [&](std::int64_t layer) {
    return (attention_sublayer(model, layer, x, sequences, tables, scaled) -
            attention_sublayer(model, layer, x, sequences, tables, {}))
        .abs();
  };
  EXPECT_EQ(difference(1).max().item<double>(), 0.0);     // no FA head
  EXPECT_EQ(difference(2)[0].max().item<double>(), 0.0);  // s_0 = 1
  EXPECT_GT(difference(2)[14].max().item<double>(), 1e-6);
}

// All heads FA with RoPE, without gate, norm and log scale: the teacher's logits bit for bit.
TEST(HybridSublayer, IdentityOptionsGiveTheTeacher) {
  const at::NoGradGuard no_grad;
  const Model teacher = load_model(std::string(HYDRA_FIXTURES) + "/qwen3-nano", {});
  Model hybrid = teacher;
  hybrid.config.hybrid.emplace();
  hybrid.config.hybrid->fa.rope = true;
  hybrid.config.hybrid->fa.gate = FaGate::none;
  hybrid.config.hybrid->fa.log_scale.mode = LogScaleMode::off;
  hybrid.config.hybrid->fusion.mode = FusionMode::none;
  hybrid.config.plan = make_plan(teacher.config.base, std::vector<std::vector<std::int64_t>>(6, {0, 1, 2, 3}), "test");
  for (Layer& layer : hybrid.layers) {
    const TeacherAttention& from = layer.teacher;
    layer.hybrid.fa.q = from.q;
    layer.hybrid.fa.k = from.k;
    layer.hybrid.fa.v = from.v;
    layer.hybrid.fa.q_norm = from.q_norm;
    layer.hybrid.fa.k_norm = from.k_norm;
    layer.hybrid.o = from.o;
  }
  const at::Tensor ids = at::remainder(at::arange(300, at::kLong) * 37, 4096);
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>{300}, std::vector<std::int64_t>{100, 200}}) {
    const auto sequences = ops::make_sequences(lengths, at::kCPU);
    EXPECT_TRUE(hydra::test::identical(logits_of(hybrid, forward_hidden(hybrid, ids, sequences)),
                                       logits_of(teacher, forward_hidden(teacher, ids, sequences))));
  }
}

}  // namespace
}  // namespace hydra::model
