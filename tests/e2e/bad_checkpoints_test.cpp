// Damaged checkpoints through the binary: exit status 2, one message with file and cause, quickly and in little memory.

#include <gtest/gtest.h>

#include "tests/support/messages.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tiny_model.hpp"

namespace hydra {
namespace {

using test::expect_pieces;

test::ProcessResult inspect(const std::filesystem::path& dir) {
  return test::run_process({HYDRA_BINARY, "inspect", dir});
}

void expect_refused(const test::ProcessResult& result, const std::vector<std::string>& pieces) {
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_LT(result.cpu_seconds, 10.0);
  EXPECT_LT(result.peak_kib, 1 << 20);
  expect_pieces(result.err, pieces);
}

TEST(BadCheckpoints, DamagedWeightFiles) {
  const test::TempDir root;
  for (const test::Damage& damage : test::make_damaged(root.path())) {
    SCOPED_TRACE(damage.name);
    const test::ProcessResult result = inspect(root.path() / damage.name);
    if (damage.accepted) {
      EXPECT_EQ(result.status, 0) << result.err;
      expect_pieces(result.err, damage.expected);
    } else {
      expect_refused(result, damage.expected);
    }
  }
}

TEST(BadCheckpoints, TensorsThatDoNotFit) {
  const test::TempDir root;
  const Json config = test::tiny_config();
  const auto refused = [&](const std::function<void(test::TinyWeights&)>& change, const Json& keys,
                           const std::vector<std::string>& pieces) {
    test::TinyWeights weights = test::tiny_weights(config);
    change(weights);
    test::save_tiny(root.path() / "m", test::tiny_config(keys), weights);
    expect_refused(inspect(root.path() / "m"), pieces);
  };
  const auto unchanged = [](test::TinyWeights&) {};
  refused([](auto& w) { w.erase("model.layers.1.self_attn.q_norm.weight"); }, Json::object(),
          {"model.layers.1.self_attn.q_norm.weight", "missing"});
  refused(
      [](auto& w) {
        w["model.layers.0.mlp.up.weight"] = w.at("model.layers.0.mlp.up_proj.weight");
        w.erase("model.layers.0.mlp.up_proj.weight");
      },
      Json::object(), {"model.layers.0.mlp.up_proj.weight", "nearest stored name is model.layers.0.mlp.up.weight"});
  refused(unchanged, {{"head_dim", 64}}, {"q_proj", "[512, 256]", "[256, 256]", "head_dim"});
  refused(unchanged, {{"num_hidden_layers", 3}}, {"model.layers.2."});
  refused(unchanged, {{"rope_theta", nullptr}}, {"config.json", "rope_theta"});
  refused(unchanged, {{"tie_word_embeddings", false}}, {"lm_head.weight"});
}

TEST(BadCheckpoints, EveryVerbRefusesAlike) {
  const test::TempDir root;
  test::make_damaged(root.path());
  const std::string bad = root.path() / "half", out = root.path() / "out";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"convert", "--model", bad, "--out", out},
        {"export", "--model", bad, "--out", out},
        {"verify", "--model", bad, "--golden", HYDRA_FIXTURES "/golden/qwen3-nano.safetensors"}}) {
    std::vector<std::string> command = {HYDRA_BINARY};
    command.insert(command.end(), arguments.begin(), arguments.end());
    SCOPED_TRACE(arguments.front());
    expect_refused(test::run_process(command), {"model-00002-of-00003.safetensors", "bytes expected"});
    EXPECT_FALSE(std::filesystem::exists(out));
    EXPECT_FALSE(std::filesystem::exists(out + ".tmp"));
  }
}

TEST(BadCheckpoints, WrongArgumentsAreRequestsToo) {
  EXPECT_EQ(test::run_process({HYDRA_BINARY, "inspect"}).status, 2);
  EXPECT_EQ(test::run_process({HYDRA_BINARY, "inspect", "/nonexistent"}).status, 2);
  for (const std::string found : {"5 apples", "1.5", "0"}) {
    const test::ProcessResult size = test::run_process({HYDRA_BINARY, "export", "--model", HYDRA_FIXTURES "/qwen3-nano",
                                                        "--out", "/nonexistent/x", "--max-shard-size", found});
    EXPECT_EQ(size.status, 2);
    expect_pieces(size.err, {"--max-shard-size", found, "GB"});
  }
}

TEST(Inspect, PrintsWhatNanoIs) {
  const test::ProcessResult result = inspect(HYDRA_FIXTURES "/qwen3-nano");
  EXPECT_EQ(result.status, 0) << result.err;
  expect_pieces(result.out,
                {"6 layers, hidden 192, MLP 576, 4 heads, 2 KV heads, head_dim 64, vocabulary 4096", "3,665,088",
                 "tied head", "4093 (generation_config.json, then config.json)", "base 1e+06", "3,072 bytes a token"});
}

TEST(Inspect, PrintsWhatAPlanMakesOfATeacher) {
  const test::TempDir root;
  test::write_bytes(root.path() / "heads.yaml", "version: 1\nheads: [[2, 3], [0], [2], [], [0, 1, 2, 3], [2]]\n");
  const test::ProcessResult result =
      test::run_process({HYDRA_BINARY, "inspect", HYDRA_FIXTURES "/qwen3-nano", "--plan", root.path() / "heads.yaml"});
  EXPECT_EQ(result.status, 0) << result.err;
  // 6 of 12 groups of 2 x 64 bf16 values; 15 states of 64 x 64 fp32.
  expect_pieces(result.out, {"9 of 24 heads (37.5%)", "6 of 12 touched (50.0%)", "1,536 bytes a token",
                             "(teacher 3,072)", "240.0 KiB a sequence", "522,437", "align", "distill", "long_context"});
}

TEST(Export, GivesACompleteDirectoryThatEqualsItsSource) {
  const test::TempDir root;
  const std::string out = root.path() / "out";
  const test::ProcessResult result = test::run_process(
      {HYDRA_BINARY, "export", "--model", HYDRA_FIXTURES "/qwen3-nano", "--out", out, "--max-shard-size", "2MB"});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                           "model.safetensors.index.json"}) {
    EXPECT_TRUE(std::filesystem::exists(root.path() / "out" / name)) << name;
  }
  const test::ProcessResult before = inspect(HYDRA_FIXTURES "/qwen3-nano"), after = inspect(out);
  EXPECT_EQ(after.status, 0) << after.err;
  const auto without_path = [](const std::string& text) { return text.substr(text.find('\n')); };
  EXPECT_EQ(without_path(before.out), without_path(after.out));
  // A used directory is refused.
  EXPECT_EQ(test::run_process({HYDRA_BINARY, "export", "--model", HYDRA_FIXTURES "/qwen3-nano", "--out", out}).status,
            2);
}

}  // namespace
}  // namespace hydra
