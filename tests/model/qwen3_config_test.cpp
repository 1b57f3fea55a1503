#include "hydrahead/model/qwen3_config.hpp"

#include <gtest/gtest.h>

#include "hydrahead/base/files.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/tiny_model.hpp"

namespace hydra::model {
namespace {

using test::expect_pieces;
using test::refusal;
using test::tiny_config;

Qwen3Config read(const Json& config, const Json& generation = nullptr) {
  return read_qwen3_config(config, generation, "m/config.json");
}

std::string refused(const Json& changes) {
  return refusal([&] { read(tiny_config(changes)); });
}

TEST(Qwen3Config, OldAndNewSpellingAreTheSame) {
  const Qwen3Config old_form = read(tiny_config());
  const Qwen3Config new_form =
      read(tiny_config({{"rope_theta", nullptr},
                        {"torch_dtype", nullptr},
                        {"dtype", "bfloat16"},
                        {"rope_parameters", {{"rope_theta", 1e6}, {"rope_type", "default"}}}}));
  for (const Qwen3Config& config : {old_form, new_form}) {
    EXPECT_EQ(config.rope.theta, 1e6);
    EXPECT_EQ(config.rope.type, "default");
    EXPECT_EQ(config.dtype, "bfloat16");
    EXPECT_EQ(config.head_dim, 128);
    EXPECT_EQ(config.group_size(), 2);
    EXPECT_TRUE(config.tie_word_embeddings);
  }
}

TEST(Qwen3Config, HeadDimIsReadFirstAndDerivedOnlyWhenAbsent) {
  EXPECT_EQ(read(tiny_config()).head_dim, 128);
  EXPECT_EQ(read(tiny_config({{"head_dim", nullptr}, {"hidden_size", 512}})).head_dim, 128);
  expect_pieces(refused({{"head_dim", nullptr}, {"hidden_size", 510}}), {"head_dim is missing", "510"});
  expect_pieces(refused({{"head_dim", 63}}), {"head_dim", "63", "even"});
}

TEST(Qwen3Config, YarnKeepsItsFactor) {
  const Json scaling = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  const Qwen3Config config = read(tiny_config({{"rope_scaling", scaling}}));
  EXPECT_EQ(config.rope.type, "yarn");
  EXPECT_EQ(config.rope.factor, 4.0);  // not 40960 / 32768
  EXPECT_EQ(config.rope.original_max_position, 32768);
  const Qwen3Config again = read(write_qwen3_config(config));
  EXPECT_EQ(again.rope.factor, 4.0);
  EXPECT_EQ(again.rope.original_max_position, 32768);
}

TEST(Qwen3Config, RopeIsNeverGuessed) {
  expect_pieces(refused({{"rope_theta", nullptr}}), {"rope_theta", "found nothing"});
  expect_pieces(refused({{"rope_parameters", {{"rope_theta", 1e4}, {"rope_type", "default"}}}}),
                {"rope_theta", "10000"});
  expect_pieces(refused({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}}), {"rope_type", "llama3", "yarn"});
  expect_pieces(refused({{"rope_scaling", {{"type", "linear"}, {"factor", 8}}}}), {"type", "linear"});
  expect_pieces(refused({{"rope_scaling", {{"rope_type", "yarn"}}}}), {"factor", "found nothing"});
  expect_pieces(refused({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2}, {"mscale", 1}}}}), {"mscale"});
  expect_pieces(refused({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2}}},
                         {"rope_parameters", {{"rope_theta", 1e6}, {"rope_type", "yarn"}, {"factor", 4}}}}),
                {"contradict"});
  expect_pieces(refused({{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}}), {"full_attention"});
}

TEST(Qwen3Config, UnsupportedModelsAreRefused) {
  expect_pieces(refused({{"model_type", "llama"}}), {"m/config.json", "model_type", "\"llama\"", "qwen3"});
  expect_pieces(refused({{"use_sliding_window", true}, {"sliding_window", 1024}}), {"use_sliding_window"});
  expect_pieces(refused({{"layer_types", {"full_attention", "sliding_attention"}}}), {"layer_types"});
  expect_pieces(refused({{"layer_types", {"full_attention"}}}), {"layer_types", "2 layers"});
  expect_pieces(refused({{"hidden_act", "gelu"}}), {"hidden_act", "gelu", "silu"});
  expect_pieces(refused({{"quantization_config", {{"bits", 4}}}}), {"quantization_config"});
  expect_pieces(refused({{"num_attention_heads", 3}}), {"num_key_value_heads", "2", "divisor"});
  expect_pieces(refused({{"num_hidden_layers", "2"}}), {"num_hidden_layers", "\"2\"", "integer"});
  expect_pieces(refused({{"vocab_size", -1}}), {"vocab_size", "-1"});
  expect_pieces(refused({{"rms_norm_eps", 0}}), {"rms_norm_eps", "positive"});
  expect_pieces(refused({{"torch_dtype", "int8"}}), {"dtype", "int8", "bfloat16"});
  expect_pieces(refused({{"dtype", "float32"}}), {"torch_dtype is bfloat16", "dtype is float32"});
  expect_pieces(refusal([] { read(Json::array()); }), {"no JSON object"});
  EXPECT_EQ(read(tiny_config({{"sliding_window", 4096}})).layers, 2);  // switched off
}

TEST(Qwen3Config, AllStopIdsCount) {
  EXPECT_EQ(read(tiny_config()).stop_ids, (std::vector<std::int64_t>{261}));
  EXPECT_EQ(read(tiny_config(), {{"eos_token_id", {261, 259}}}).stop_ids, (std::vector<std::int64_t>{261, 259}));
  std::vector<std::int64_t> ids;
  const std::string log = test::log_of([&] { ids = read(tiny_config(), {{"eos_token_id", 259}}).stop_ids; });
  EXPECT_EQ(ids, (std::vector<std::int64_t>{259, 261}));
  expect_pieces(log, {"eos_token_id 261", "generation_config"});
  expect_pieces(refused({{"eos_token_id", "x"}}), {"eos_token_id"});
}

TEST(Qwen3Config, ExportStatesEverything) {
  const Json source = tiny_config({{"head_dim", nullptr}, {"hidden_size", 512}, {"made_by", "somebody"}});
  const Json written = write_qwen3_config(read(source));
  EXPECT_EQ(written.at("head_dim"), 128);
  EXPECT_EQ(written.at("rope_theta"), 1e6);
  EXPECT_EQ(written.at("rope_parameters").at("rope_theta"), 1e6);
  EXPECT_EQ(written.at("rope_parameters").at("rope_type"), "default");
  EXPECT_TRUE(written.at("rope_scaling").is_null());
  EXPECT_EQ(written.at("tie_word_embeddings"), true);
  EXPECT_EQ(written.at("dtype"), "bfloat16");
  EXPECT_EQ(written.at("torch_dtype"), "bfloat16");
  EXPECT_EQ(written.at("made_by"), "somebody");
  EXPECT_EQ(write_qwen3_config(read(written)), written);
}

}  // namespace
}  // namespace hydra::model
