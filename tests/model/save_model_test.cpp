#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hydrahead/model/hydra_model.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tiny_model.hpp"

namespace hydra::model {
namespace {

using test::expect_pieces;
using test::tiny_config;

ModelConfig teacher_config(const Json& changes = Json::object()) {
  ModelConfig config;
  config.base = read_qwen3_config(tiny_config(changes), nullptr, "tiny");
  return config;
}

ModelConfig hybrid_config(const HybridConfig& options, const Json& changes = Json::object()) {
  ModelConfig config = teacher_config(changes);
  config.hybrid = options;
  config.plan = make_plan(config.base, {{0, 3}, {}}, "test");
  return config;
}

void expect_round_trip(const ModelConfig& config, double tolerance) {
  const test::TempDir dir;
  Model model = random_model(config, {}, 3);
  save_model(model, dir.path() / "m", {});
  Model loaded = load_model(dir.path() / "m", {});
  const auto before = parameters(model), after = parameters(loaded);
  ASSERT_EQ(before.size(), after.size());
  ASSERT_EQ(before.size(), expected_tensors(config).size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    const bool exact = before[i].keep_fp32;
    EXPECT_TRUE(at::allclose(*before[i].tensor, *after[i].tensor, exact ? 0 : tolerance, 0)) << before[i].name;
  }
}

TEST(SaveModel, TeachersComeBack) {
  expect_round_trip(teacher_config(), 4e-3);
  expect_round_trip(teacher_config({{"torch_dtype", "float32"}, {"tie_word_embeddings", false}}), 0);
  expect_round_trip(teacher_config({{"attention_bias", true}, {"torch_dtype", "float32"}}), 0);
}

TEST(SaveModel, HybridsOfEveryOptionComeBack) {
  std::vector<HybridConfig> cases(8);
  cases[1].branch_weights = BranchWeights::shared;
  cases[2].branch_weights = BranchWeights::shared;
  cases[2].gdn.kv_expand = KvExpand::gqa;
  cases[3].gdn.kv_expand = KvExpand::gqa;
  cases[3].gdn.conv.kernel = 4;
  cases[4].fa.gate = FaGate::headwise;
  cases[4].fa.gate_has_bias = true;
  cases[4].fa.gate_bias = 1.0;
  cases[5].fa.gate = FaGate::none;
  cases[5].gdn.gate = GdnGate::none;
  cases[5].fusion.mode = FusionMode::none;
  cases[6].fusion.mode = FusionMode::gated;
  cases[6].gdn.qk_norm = false;
  cases[7].gdn.gate = GdnGate::silu;
  cases[7].gdn.neg_eigval = true;
  Json exact = {{"hidden_size", 64}, {"head_dim", 32}, {"intermediate_size", 64}, {"vocab_size", 96}};
  Json biased = exact;
  exact["torch_dtype"] = "float32";
  biased["attention_bias"] = true;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    expect_round_trip(hybrid_config(cases[i], exact), 0);
    expect_round_trip(hybrid_config(cases[i], biased), 4e-3);
  }
}

TEST(SaveModel, DirectoryIsComplete) {
  const test::TempDir dir;
  const std::string nano = std::string(HYDRA_FIXTURES) + "/qwen3-nano";
  ModelConfig config = hybrid_config({}, {{"rope_theta", 5e5}});
  Model model = random_model(config, {}, 3);
  save_model(model, dir.path() / "m", {.max_shard_bytes = 500'000, .tokenizer_source = nano});
  const Json json = *parse_json(test::read_bytes(dir.path() / "m" / "config.json"));
  EXPECT_EQ(json.at("architectures"), Json::array({"HydraHeadForCausalLM"}));
  EXPECT_EQ(json.at("model_type"), "hydrahead");
  EXPECT_EQ(json.at("fa_heads"), Json::parse("[[0, 3], []]"));
  EXPECT_EQ(json.at("kv_groups"), Json::parse("[[0, 1], []]"));
  EXPECT_EQ(json.at("kv_index"), Json::parse("[[0, 1], []]"));
  EXPECT_EQ(json.at("head_dim"), 128);
  EXPECT_EQ(json.at("rope_theta"), 5e5);
  EXPECT_EQ(json.at("rope_parameters").at("rope_theta"), 5e5);
  EXPECT_EQ(json.at("tie_word_embeddings"), true);
  for (const char* key : {"log_scale", "gdn", "fusion", "fa", "branch_weights"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "generation_config.json", "model.safetensors.index.json"}) {
    EXPECT_TRUE(std::filesystem::exists(dir.path() / "m" / name)) << name;
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir.path() / "m")) {
    if (entry.path().extension() == ".safetensors") {
      EXPECT_LT(entry.file_size(), 510'000u) << entry.path();
    }
  }
  const io::HfModelDir saved = io::HfModelDir::open(dir.path() / "m");
  EXPECT_EQ(saved.info("model.layers.0.self_attn.gamma").dtype, "F32");
  EXPECT_EQ(saved.info("model.layers.0.self_attn.gdn.A_log").dtype, "F32");
  EXPECT_EQ(saved.info("model.layers.0.self_attn.gdn.dt_bias").dtype, "F32");
  EXPECT_EQ(saved.info("model.layers.0.self_attn.fa.q_proj.weight").dtype, "BF16");
  EXPECT_FALSE(saved.contains("lm_head.weight"));
}

TEST(SaveModel, StorageTypeCanBeChosen) {
  const test::TempDir dir;
  Model model = random_model(teacher_config(), {}, 3);
  save_model(model, dir.path() / "m", {.dtype = "float16"});
  const io::HfModelDir saved = io::HfModelDir::open(dir.path() / "m");
  EXPECT_EQ(saved.info("model.norm.weight").dtype, "F16");
  EXPECT_EQ(saved.config().at("dtype"), "float16");
  EXPECT_EQ(saved.config().at("torch_dtype"), "float16");
  expect_pieces(test::refusal([&] { save_model(model, dir.path() / "n", {.dtype = "int8"}); }), {"int8", "bfloat16"});
}

TEST(SaveModel, NothingAppearsWhenItFails) {
  const test::TempDir dir;
  Model model = random_model(teacher_config(), {}, 3);
  model.layers[1].up[2][3] = std::numeric_limits<float>::infinity();
  try {
    save_model(model, dir.path() / "m", {});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    expect_pieces(error.what(), {"model.layers.1.mlp.up_proj.weight", "not finite"});
  }
  model.layers[1].up[2][3] = 1e6;  // finite, but not in fp16
  EXPECT_THROW(save_model(model, dir.path() / "m", {.dtype = "float16"}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  save_model(model, dir.path() / "m", {});
  expect_pieces(test::refusal([&] { save_model(model, dir.path() / "m", {}); }), {"already holds something"});
}

TEST(RandomModel, DependsOnTheSeedOnly) {
  Model a = random_model(teacher_config(), {}, 1), b = random_model(teacher_config(), {}, 1);
  const Model c = random_model(teacher_config(), {}, 2);
  EXPECT_TRUE(at::equal(a.layers[1].down, b.layers[1].down));
  EXPECT_FALSE(at::equal(a.layers[1].down, c.layers[1].down));
  EXPECT_FALSE(at::equal(a.layers[0].down, a.layers[1].down));
}

}  // namespace
}  // namespace hydra::model
