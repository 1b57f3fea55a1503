#include "hydrahead/io/hf_model_dir.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hydrahead/base/log.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tiny_model.hpp"

namespace hydra::io {
namespace {

using test::expect_pieces;
using test::log_of;
using test::refusal;

TEST(HfModelDir, DamagedWeightSetsAreRefusedWithFileAndCause) {
  const test::TempDir root;
  for (const test::Damage& damage : test::make_damaged(root.path())) {
    SCOPED_TRACE(damage.name);
    if (damage.accepted) {
      expect_pieces(log_of([&] { HfModelDir::open(root.path() / damage.name); }), damage.expected);
    } else {
      expect_pieces(refusal([&] { HfModelDir::open(root.path() / damage.name); }), damage.expected);
    }
  }
}

TEST(HfModelDir, ShardsEqualTheSingleFile) {
  const test::TempDir root;
  const Json config = test::tiny_config();
  const auto weights = test::tiny_weights(config);
  test::save_tiny(root.path() / "one", config, weights);
  test::save_tiny(root.path() / "three", config, weights, {.shards = 3});
  const HfModelDir one = HfModelDir::open(root.path() / "one"), three = HfModelDir::open(root.path() / "three");
  ASSERT_EQ(one.names(), three.names());
  for (const std::string& name : one.names()) {
    EXPECT_TRUE(at::equal(one.load(name), three.load(name))) << name;
  }
  EXPECT_EQ(one.generation_config().at("pad_token_id"), 259);
  EXPECT_NE(one.sha256(), three.sha256());
  EXPECT_EQ(one.sha256(), HfModelDir::open(root.path() / "one").sha256());
}

TEST(HfModelDir, TwoWeightSetsAreRefused) {
  const test::TempDir root;
  const Json config = test::tiny_config();
  const auto weights = test::tiny_weights(config);
  test::save_tiny(root.path() / "m", config, weights, {.shards = 2});
  test::write_bytes(root.path() / "m" / "model.safetensors", test::safetensors_bytes(weights));
  expect_pieces(refusal([&] { HfModelDir::open(root.path() / "m"); }),
                {"two weight sets", "model.safetensors.index.json"});
  std::filesystem::remove(root.path() / "m" / "model.safetensors.index.json");
  expect_pieces(refusal([&] { HfModelDir::open(root.path() / "m"); }), {"two weight sets", "model-00001-of-00002"});
  std::filesystem::remove(root.path() / "m" / "model.safetensors");
  expect_pieces(refusal([&] { HfModelDir::open(root.path() / "m"); }),
                {"model.safetensors: file is missing", "model.safetensors.index.json"});
}

TEST(HfModelDir, IndexAndShardsMustAgreeBothWays) {
  const test::TempDir root;
  const Json config = test::tiny_config();
  const auto weights = test::tiny_weights(config);
  test::save_tiny(root.path() / "m", config, weights, {.shards = 2});
  const auto index = root.path() / "m" / "model.safetensors.index.json";
  const Json good = *parse_json(test::read_bytes(index));
  Json changed = good;
  changed["weight_map"].erase("model.norm.weight");
  test::write_bytes(index, changed.dump());
  expect_pieces(refusal([&] { HfModelDir::open(root.path() / "m"); }),
                {"holds tensor model.norm.weight", "does not name"});
  changed = good;
  const std::string file = good["weight_map"]["model.norm.weight"];
  const std::string other = test::shard_name(file == test::shard_name(1, 2) ? 2 : 1, 2);
  changed["weight_map"]["model.norm.weight"] = other;
  test::write_bytes(index, changed.dump());
  expect_pieces(refusal([&] { HfModelDir::open(root.path() / "m"); }),
                {"model.norm.weight in " + other, "does not hold it"});
  test::write_bytes(index, "{\"weight_map\": {\"a\": \"../m/x\"}}");
  expect_pieces(refusal([&] { HfModelDir::open(root.path() / "m"); }), {"index.json", "no plain file name"});
}

TEST(HfModelDir, MissingPartsAreNamed) {
  const test::TempDir root;
  expect_pieces(refusal([&] { HfModelDir::open(root.path() / "absent"); }), {"absent", "expected a model directory"});
  expect_pieces(refusal([&] { HfModelDir::open(root.path()); }), {"config.json: file is missing"});
  test::write_bytes(root.path() / "config.json", "{");
  expect_pieces(refusal([&] { HfModelDir::open(root.path()); }), {"config.json", "not valid JSON"});
}

TEST(HfModelDir, WritesShardsThatReadBack) {
  const test::TempDir root;
  NamedTensors tensors;
  for (int i = 0; i < 7; ++i) {
    tensors.emplace_back(detail::concat("t", i), at::full({10}, i, at::kFloat));
  }
  test::write_bytes(root.path() / "config.json", "{}");
  write_model_tensors(root.path(), tensors, 100);  // two tensors of 40 bytes a shard
  const HfModelDir dir = HfModelDir::open(root.path());
  EXPECT_TRUE(std::filesystem::exists(root.path() / "model-00004-of-00004.safetensors"));
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(at::equal(dir.load(name), tensor));
  }
  const Json index = *parse_json(test::read_bytes(root.path() / "model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 280);
}

}  // namespace
}  // namespace hydra::io
