// Recipes for loading: head size, storage types, addresses, missing, renamed and extra tensors, tied heads.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hydrahead/model/hydra_model.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tiny_model.hpp"

namespace hydra::model {
namespace {

using test::expect_pieces;
using test::log_of;
using test::refusal;
using test::tiny_config;
using test::TinyWeights;

constexpr const char* embedding = "model.embed_tokens.weight";

class LoadModel : public testing::Test {
 protected:
  std::filesystem::path save(const std::string& name, const Json& config, const TinyWeights& weights,
                             const test::TinyOptions& options = {}) {
    test::save_tiny(root_.path() / name, config, weights, options);
    return root_.path() / name;
  }
  // The plain model with changed tensors and config keys.
  std::filesystem::path variant(const std::function<void(TinyWeights&)>& change, const Json& keys = Json::object()) {
    TinyWeights weights = test::tiny_weights(tiny_config());
    change(weights);
    return save("variant", tiny_config(keys), weights);
  }
  // A saved hybrid of three layers: mixed, none, all heads FA.
  std::filesystem::path hybrid() {
    ModelConfig config;
    config.base = read_qwen3_config(tiny_config({{"num_hidden_layers", 3}}), nullptr, "tiny");
    config.hybrid.emplace();
    config.plan = make_plan(config.base, {{2, 3}, {}, {0, 1, 2, 3}}, "test");
    Model model = random_model(config, {}, 5);
    save_model(model, root_.path() / "hybrid", {});
    return root_.path() / "hybrid";
  }
  test::TempDir root_;
};

void rename(TinyWeights& weights, const std::string& from, const std::string& to) {
  auto node = weights.extract(from);
  node.key() = to;
  weights.insert(std::move(node));
}

void expect_same(Model a, Model b, double tolerance) {
  const auto of_a = parameters(a), of_b = parameters(b);
  ASSERT_EQ(of_a.size(), of_b.size());
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    ASSERT_EQ(of_a[i].name, of_b[i].name);
    const double largest = of_a[i].tensor->abs().max().item<double>();
    EXPECT_LE((*of_a[i].tensor - *of_b[i].tensor).abs().max().item<double>(), tolerance * largest) << of_a[i].name;
  }
}

TEST_F(LoadModel, StorageFormsGiveTheSameModel) {
  const Json config = tiny_config();
  const TinyWeights weights = test::tiny_weights(config);
  const Model plain = load_model(save("plain", config, weights), {});
  EXPECT_EQ(plain.embed.scalar_type(), at::kFloat);
  EXPECT_TRUE(plain.head.is_same(plain.embed));
  expect_same(plain, load_model(save("odd", config, weights, {.odd = true}), {}), 0);
  expect_same(plain, load_model(save("shards", config, weights, {.shards = 3}), {}), 0);
  expect_same(plain,
              load_model(save("new_key", tiny_config({{"torch_dtype", nullptr}, {"dtype", "bfloat16"}}), weights), {}),
              0);
  const Model full = load_model(save("f32", config, weights, {.dtype = "F32"}), {});
  EXPECT_EQ(full.config.base.dtype, "float32");  // what is stored counts
  expect_same(plain, full, 1e-2);
  expect_same(full, load_model(save("f16", config, weights, {.dtype = "F16"}), {}), 1e-3);
}

TEST_F(LoadModel, HeadDimMustFitTheTensors) {
  const Json derived = tiny_config({{"head_dim", nullptr}, {"hidden_size", 512}});
  EXPECT_EQ(load_model(save("derived", derived, test::tiny_weights(derived)), {}).config.base.head_dim, 128);
  const auto dir = variant([](TinyWeights&) {}, {{"head_dim", 64}});
  expect_pieces(refusal([&] { load_model(dir, {}); }), {"q_proj", "[512, 256]", "[256, 256]", "head_dim 64"});
}

TEST_F(LoadModel, MissingAndRenamedTensorsAreNamed) {
  const std::string norm = "model.layers.1.self_attn.q_norm.weight", up = "model.layers.0.mlp.up_proj.weight";
  expect_pieces(refusal([&] { load_model(variant([&](TinyWeights& w) { w.erase(norm); }), {}); }),
                {norm, "missing", "[128]"});
  expect_pieces(
      refusal([&] { load_model(variant([&](TinyWeights& w) { rename(w, up, "model.layers.0.mlp.up.weight"); }), {}); }),
      {up, "missing", "nearest stored name is model.layers.0.mlp.up.weight"});
  expect_pieces(refusal([&] { load_model(variant([&](TinyWeights& w) { w.erase(embedding); }), {}); }),
                {embedding, "missing"});
  expect_pieces(refusal([&] {
                  load_model(variant([](TinyWeights&) {}, {{"num_hidden_layers", 3}}), {});
                }),
                {"model.layers.2.", "missing"});
}

TEST_F(LoadModel, ExtraTensorsAreRefusedAndRotaryTablesIgnored) {
  const auto extra =
      variant([](TinyWeights& w) { w["model.layers.2.mlp.up_proj.weight"] = w["model.layers.1.mlp.up_proj.weight"]; });
  expect_pieces(refusal([&] { load_model(extra, {}); }), {"model.layers.2.mlp.up_proj.weight", "2 layers"});
  const auto table = variant([](TinyWeights& w) {
    w["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{64}, std::vector<float>(64, 0.5f)};
  });
  expect_pieces(log_of([&] { load_model(table, {}); }), {"ignoring", "rotary_emb.inv_freq"});
}

TEST_F(LoadModel, BackboneWithoutPrefixIsAccepted) {
  const Model plain = load_model(variant([](TinyWeights&) {}), {});
  const auto bare = variant([](TinyWeights& w) {
    TinyWeights renamed;
    for (auto& [name, tensor] : w) {
      renamed[name.substr(6)] = tensor;
    }
    w = renamed;
  });
  std::optional<Model> model;
  expect_pieces(log_of([&] { model = load_model(bare, {}); }), {"prefix"});
  expect_same(plain, *model, 0);
}

TEST_F(LoadModel, TiedAndUntiedHeads) {
  const auto equal = variant([](TinyWeights& w) { w["lm_head.weight"] = w[embedding]; });
  expect_pieces(log_of([&] {
                  const Model model = load_model(equal, {});
                  EXPECT_TRUE(model.head.is_same(model.embed));
                }),
                {"dropping lm_head.weight"});
  const auto unequal = variant([](TinyWeights& w) {
    w["lm_head.weight"] = w[embedding];
    w["lm_head.weight"].values[17] += 1.0f;
  });
  expect_pieces(refusal([&] { load_model(unequal, {}); }), {"lm_head.weight", "differs", "tie_word_embeddings true"});
  const auto headless = variant([](TinyWeights&) {}, {{"tie_word_embeddings", false}});
  expect_pieces(refusal([&] { load_model(headless, {}); }), {"lm_head.weight is missing", "tie_word_embeddings"});
  const auto untied = variant(
      [](TinyWeights& w) {
        w["lm_head.weight"] = w[embedding];
        w["lm_head.weight"].values[0] = 3.0f;
      },
      {{"tie_word_embeddings", false}});
  const Model model = load_model(untied, {});
  EXPECT_EQ(model.head[0][0].item<float>(), 3.0f);
  EXPECT_FALSE(at::equal(model.head, model.embed));
}

TEST_F(LoadModel, ValuesThatAreNotFiniteAreRefused) {
  const auto dir = variant([](TinyWeights& w) { w["model.norm.weight"].values[3] = std::nanf(""); });
  expect_pieces(refusal([&] { load_model(dir, {}); }), {"model.norm.weight", "not finite"});
}

TEST_F(LoadModel, AttentionBiasesAreLoaded) {
  const auto dir = variant(
      [](TinyWeights& w) {
        for (const char* layer : {"model.layers.0.self_attn.", "model.layers.1.self_attn."}) {
          w[std::string(layer).append("q_proj.bias")] = {{512}, std::vector<float>(512, 0.25f)};
          w[std::string(layer).append("k_proj.bias")] = {{256}, std::vector<float>(256, 0.5f)};
          w[std::string(layer).append("v_proj.bias")] = {{256}, std::vector<float>(256, 0.75f)};
          w[std::string(layer).append("o_proj.bias")] = {{256}, std::vector<float>(256, 1.0f)};
        }
      },
      {{"attention_bias", true}});
  const Model model = load_model(dir, {});
  EXPECT_EQ(model.layers[1].teacher.o_bias.sum().item<float>(), 256.0f);
  EXPECT_EQ(model.layers[0].teacher.q_bias.sum().item<float>(), 128.0f);
}

TEST_F(LoadModel, TypesInMemoryFollowTheOptions) {
  const std::filesystem::path dir = hybrid();
  const Model bf16 = load_model(dir, {.parameter_type = at::kBFloat16, .compute_type = at::kBFloat16});
  EXPECT_EQ(bf16.layers[0].hybrid.fa.q.scalar_type(), at::kBFloat16);
  EXPECT_EQ(bf16.layers[0].hybrid.gdn.A_log.scalar_type(), at::kFloat);
  EXPECT_EQ(bf16.layers[0].hybrid.gamma.scalar_type(), at::kFloat);
  EXPECT_EQ(bf16.rope_frequencies.scalar_type(), at::kFloat);
  const Model fp64 = load_model(dir, {.parameter_type = at::kDouble, .compute_type = at::kDouble});
  EXPECT_EQ(fp64.layers[0].hybrid.gdn.dt_bias.scalar_type(), at::kDouble);
  ASSERT_TRUE(fp64.is_hybrid());
  EXPECT_EQ(fp64.config.plan->layers[0].fa_heads, (std::vector<std::int64_t>{2, 3}));
  EXPECT_FALSE(fp64.layers[1].hybrid.fa.q.defined());
  EXPECT_FALSE(fp64.layers[2].hybrid.gdn.q.defined());
}

TEST_F(LoadModel, PlanOfAHybridMustBeWhole) {
  const std::filesystem::path dir = hybrid();
  const Json good = *parse_json(test::read_bytes(dir / "config.json"));
  const auto refused = [&](const std::function<void(Json&)>& change) {
    Json config = good;
    change(config);
    test::write_bytes(dir / "config.json", config.dump());
    return refusal([&] { load_model(dir, {}); });
  };
  expect_pieces(refused([](Json& c) { c["fa_heads"].push_back(Json::array()); }), {"fa_heads", "found 4", "3 layers"});
  expect_pieces(refused([](Json& c) { c["fa_heads"][0] = {2, 4}; }), {"fa_heads: layer 0", "found head 4"});
  expect_pieces(refused([](Json& c) { c["fa_heads"][0] = {2, 2}; }), {"layer 0", "head 2 stands twice"});
  expect_pieces(refused([](Json& c) { c["fa_heads"][0] = {3, 2}; }), {"fa_heads[0]", "ascending"});
  expect_pieces(refused([](Json& c) { c["kv_groups"][0] = Json::array({0}); }), {"kv_groups[0]", "[1]"});
  expect_pieces(refused([](Json& c) { c["kv_index"][2] = {0, 0, 0, 1}; }), {"kv_index[2]", "[0,0,1,1]"});
  expect_pieces(refused([](Json& c) {  // consistent, but not what the weights are
                  c["fa_heads"][0] = Json::array({2});
                  c["kv_index"][0] = Json::array({0});
                }),
                {"layers.0.self_attn.fa.q_proj", "[256, 256]", "[128, 256]"});
  expect_pieces(refused([](Json& c) { c["model_type"] = "qwen3"; }), {"model_type", "fa_heads"});
  expect_pieces(refused([](Json& c) { c.erase("fa_heads"); }), {"model_type", "fa_heads", "missing"});
  expect_pieces(refused([](Json& c) { c["hydrahead_format"] = 2; }), {"hydrahead_format", "found 2", "expected 1"});
}

// The values that transformers' formulas give in PyTorch, bit by bit, for head_dim 128 and base 1e6; YaRN with factor 4
// of 32768 positions ramps from dimension 23 to 40.
TEST(RopeFrequencies, EqualTransformers) {
  Qwen3Config config;
  config.head_dim = 128;
  config.rope.theta = 1e6;
  const RopeFrequencies plain = rope_frequencies(config);
  config.rope.type = "yarn";
  config.rope.factor = 4;
  config.rope.original_max_position = 32768;
  const RopeFrequencies yarn = rope_frequencies(config);
  struct Row {
    int index;
    float plain, yarn;
  };
  for (const Row& row :
       {Row{0, 1.0f, 1.0f}, Row{1, 0x1.9c975ap-1f, 0x1.9c975ap-1f}, Row{20, 0x1.b4f7e4p-7f, 0x1.b4f7e4p-7f},
        Row{24, 0x1.708938p-8f, 0x1.6046eep-8f}, Row{38, 0x1.1f24e4p-12f, 0x1.847d34p-14f},
        Row{39, 0x1.cec924p-13f, 0x1.103a14p-14f}, Row{63, 0x1.4d1c98p-20f, 0x1.4d1c98p-22f}}) {
    EXPECT_EQ(plain.inverse[row.index].item<float>(), row.plain) << row.index;
    EXPECT_EQ(yarn.inverse[row.index].item<float>(), row.yarn) << row.index;
  }
  EXPECT_EQ(plain.attention_factor, 1.0);
  EXPECT_DOUBLE_EQ(yarn.attention_factor, 1.138629436111989);
  config.rope.attention_factor = 1.5;
  EXPECT_EQ(rope_frequencies(config).attention_factor, 1.5);
}

}  // namespace
}  // namespace hydra::model
