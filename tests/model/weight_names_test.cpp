#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "hydrahead/model/hydra_model.hpp"
#include "tests/support/tiny_model.hpp"

namespace hydra::model {
namespace {

std::map<std::string, std::vector<std::int64_t>> shapes(const ModelConfig& config) {
  std::map<std::string, std::vector<std::int64_t>> result;
  for (const ExpectedTensor& tensor : expected_tensors(config)) {
    EXPECT_TRUE(result.emplace(tensor.name, tensor.shape).second) << tensor.name;
  }
  return result;
}

using Shape = std::vector<std::int64_t>;

TEST(WeightNames, HybridLayer) {
  ModelConfig config;
  config.base = read_qwen3_config(test::tiny_config(), nullptr, "tiny");  // D 256, 4 heads, 2 KV heads of 128
  config.hybrid.emplace();
  config.plan = make_plan(config.base, {{0, 1, 3}, {2}}, "test");
  const std::string a = "model.layers.0.self_attn.", b = "model.layers.1.self_attn.";
  auto names = shapes(config);
  EXPECT_EQ(names.at(a + "fa.q_proj.weight"), (Shape{384, 256}));
  EXPECT_EQ(names.at(a + "fa.k_proj.weight"), (Shape{256, 256}));
  EXPECT_EQ(names.at(b + "fa.v_proj.weight"), (Shape{128, 256}));
  EXPECT_EQ(names.at(a + "fa.g_proj.weight"), (Shape{384, 256}));
  EXPECT_EQ(names.at(b + "gdn.k_proj.weight"), (Shape{384, 256}));
  EXPECT_EQ(names.at(b + "gdn.z_proj.weight"), (Shape{384, 256}));
  EXPECT_EQ(names.at(b + "gdn.a_proj.weight"), (Shape{3, 256}));
  EXPECT_EQ(names.at(b + "gdn.b_proj.bias"), (Shape{3}));
  EXPECT_EQ(names.at(b + "gdn.A_log"), (Shape{3}));
  EXPECT_EQ(names.at(a + "gamma"), (Shape{4}));
  EXPECT_EQ(names.at(a + "o_proj.weight"), (Shape{256, 512}));
  EXPECT_EQ(names.count(a + "q_proj.weight"), 0u);
  EXPECT_EQ(names.count(a + "fa.g_proj.bias"), 0u);
  EXPECT_EQ(names.count(a + "fusion.weight"), 0u);
  EXPECT_EQ(names.count("lm_head.weight"), 0u);

  config.hybrid->fa.gate = FaGate::headwise;
  config.hybrid->fa.gate_has_bias = true;
  config.hybrid->gdn.kv_expand = KvExpand::gqa;
  config.hybrid->gdn.conv.kernel = 4;
  config.hybrid->fusion.mode = FusionMode::gated;
  names = shapes(config);
  EXPECT_EQ(names.at(a + "fa.g_proj.weight"), (Shape{3, 256}));
  EXPECT_EQ(names.at(a + "fa.g_proj.bias"), (Shape{3}));
  EXPECT_EQ(names.at(b + "gdn.z_proj.weight"), (Shape{3, 256}));
  EXPECT_EQ(names.at(b + "gdn.k_proj.weight"), (Shape{256, 256}));
  EXPECT_EQ(names.at(b + "gdn.q_conv1d.weight"), (Shape{384, 4}));
  EXPECT_EQ(names.at(b + "gdn.v_conv1d.weight"), (Shape{256, 4}));
  EXPECT_EQ(names.at(a + "fusion.weight"), (Shape{4, 256}));

  config.hybrid->branch_weights = BranchWeights::shared;
  names = shapes(config);
  EXPECT_EQ(names.at(a + "q_proj.weight"), (Shape{512, 256}));
  EXPECT_EQ(names.at(a + "k_proj.weight"), (Shape{256, 256}));
  EXPECT_EQ(names.count(a + "fa.q_proj.weight"), 0u);
  config.hybrid->gdn.kv_expand = KvExpand::mha;
  EXPECT_EQ(shapes(config).at(a + "v_proj.weight"), (Shape{512, 256}));
}

TEST(WeightNames, FlagsOfParameters) {
  ModelConfig config;
  config.base = read_qwen3_config(test::tiny_config(), nullptr, "tiny");
  config.hybrid.emplace();
  config.plan = make_plan(config.base, {{0}, {2}}, "test");
  Model model = random_model(config, {}, 0);
  std::set<const void*> tensors;
  for (const Parameter& parameter : parameters(model)) {
    const bool in_attention = parameter.name.find(".self_attn.") != std::string::npos;
    EXPECT_EQ(parameter.attention, in_attention) << parameter.name;
    EXPECT_EQ(parameter.keep_fp32, parameter.name.ends_with("gamma") || parameter.name.ends_with("A_log") ||
                                       parameter.name.ends_with("dt_bias"))
        << parameter.name;
    EXPECT_EQ(parameter.layer >= 0, parameter.name.starts_with("model.layers.")) << parameter.name;
    EXPECT_TRUE(tensors.insert(parameter.tensor).second) << parameter.name;
  }
}

}  // namespace
}  // namespace hydra::model
