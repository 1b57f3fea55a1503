#include "hydrahead/model/head_plan.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tiny_model.hpp"

namespace hydra::model {
namespace {

using Heads = std::vector<std::int64_t>;
using test::expect_pieces;
using test::refusal;

// Qwen3-1.7B's attention: 28 layers x 16 heads, 8 KV heads of 128.
Qwen3Config qwen_1_7b() {
  Qwen3Config config;
  config.layers = 28;
  config.heads = 16;
  config.kv_heads = 8;
  config.head_dim = 128;
  return config;
}

HeadsConfig by_rule(HeadRule rule, double ratio) {
  HeadsConfig heads;
  heads.rule = rule;
  heads.fa_ratio = ratio;
  return heads;
}

std::string refused(const HeadsConfig& heads) {
  return refusal([&] { plan_by_rule(heads, qwen_1_7b(), 0); });
}

std::set<Heads> layers_of(const HeadPlan& plan) {
  std::set<Heads> layers;
  for (const LayerPlan& layer : plan.layers) {
    layers.insert(layer.fa_heads);
  }
  return layers;
}

TEST(MakePlan, DerivesGroupsAndComplement) {
  Qwen3Config config = qwen_1_7b();
  config.layers = 2;
  const HeadPlan plan = make_plan(config, {{9, 2, 8}, {}}, "test");
  EXPECT_EQ(plan.layers[0].fa_heads, (Heads{2, 8, 9}));
  EXPECT_EQ(plan.layers[0].kv_groups, (Heads{1, 4}));
  EXPECT_EQ(plan.layers[0].kv_index, (Heads{0, 1, 1}));
  EXPECT_EQ(plan.layers[0].gdn_heads.size(), 13u);
  EXPECT_EQ(plan.layers[1].gdn_heads.size(), 16u);
  EXPECT_EQ(plan.fa_count(), 3);
  EXPECT_EQ(plan.touched_groups(), 2);
}

TEST(PlanByRule, FixedTakesTheSameHeadsEverywhere) {
  const HeadPlan plan = plan_by_rule(by_rule(HeadRule::fixed, 0.25), qwen_1_7b(), 0);
  EXPECT_EQ(layers_of(plan), (std::set<Heads>{{0, 4, 8, 12}}));
  EXPECT_EQ(plan.rule, "fixed");
  // 60 heads: 2 a layer, and one more in the first 4.
  const HeadPlan uneven = plan_by_rule(by_rule(HeadRule::fixed, 60.0 / 448), qwen_1_7b(), 0);
  EXPECT_EQ(uneven.layers[3].fa_heads, (Heads{0, 5, 10}));
  EXPECT_EQ(uneven.layers[4].fa_heads, (Heads{0, 8}));
  EXPECT_EQ(uneven.fa_count(), 60);
}

TEST(PlanByRule, LayerRandomIsSeeded) {
  const HeadsConfig heads = by_rule(HeadRule::layer_random, 0.25);
  const HeadPlan plan = plan_by_rule(heads, qwen_1_7b(), 1);
  for (const LayerPlan& layer : plan.layers) {
    EXPECT_EQ(layer.fa_heads.size(), 4u);
  }
  EXPECT_GT(layers_of(plan).size(), 14u);
  EXPECT_EQ(layers_of(plan), layers_of(plan_by_rule(heads, qwen_1_7b(), 1)));
  EXPECT_NE(layers_of(plan), layers_of(plan_by_rule(heads, qwen_1_7b(), 2)));
}

TEST(PlanByRule, GlobalRandomKeepsTheTotalAndTheLeast) {
  HeadsConfig heads = by_rule(HeadRule::global_random, 0.125);
  int empty_layers = 0;
  for (std::int64_t seed = 0; seed < 20; ++seed) {
    heads.min_per_layer = 0;
    const HeadPlan plan = plan_by_rule(heads, qwen_1_7b(), seed);
    EXPECT_EQ(plan.fa_count(), 56);
    for (const LayerPlan& layer : plan.layers) {
      empty_layers += layer.fa_heads.empty();
    }
    heads.min_per_layer = 1;
    const HeadPlan least = plan_by_rule(heads, qwen_1_7b(), seed);
    EXPECT_EQ(least.fa_count(), 56);
    for (const LayerPlan& layer : least.layers) {
      EXPECT_GE(layer.fa_heads.size(), 1u);
    }
  }
  EXPECT_GT(empty_layers, 10);  // about 3 of 28 layers a plan get none
}

TEST(PlanByRule, LayerWiseTakesWholeLayers) {
  HeadsConfig heads = by_rule(HeadRule::layer_wise, 0.25);
  const HeadPlan even = plan_by_rule(heads, qwen_1_7b(), 0);
  Heads chosen;
  for (std::int64_t layer = 0; layer < 28; ++layer) {
    if (!even.layers[layer].fa_heads.empty()) {
      EXPECT_EQ(even.layers[layer].fa_heads.size(), 16u);
      chosen.push_back(layer);
    }
  }
  EXPECT_EQ(chosen, (Heads{2, 6, 10, 14, 18, 22, 26}));
  EXPECT_EQ(even.touched_groups(), 56);
  heads.layers = "";
  heads.layer_list = {2, 3, 6, 8, 9, 21, 25};
  const HeadPlan listed = plan_by_rule(heads, qwen_1_7b(), 0);
  EXPECT_EQ(listed.fa_count(), 112);
  EXPECT_EQ(listed.layers[21].fa_heads.size(), 16u);
  EXPECT_TRUE(listed.layers[20].fa_heads.empty());
  heads.layer_list = {2, 28};
  expect_pieces(refused(heads), {"heads.layers", "28", "0 to 27"});
  heads.layer_list = {2, 2};
  expect_pieces(refused(heads), {"layer 2 stands twice"});
}

TEST(PlanByRule, InfeasibleBudgetsNameTheNearestRatios) {
  expect_pieces(refused(by_rule(HeadRule::fixed, 0.05)), {"heads.fa_ratio", "0.05", "22 of 448", "0.0625"});
  expect_pieces(refused(by_rule(HeadRule::layer_random, 0.0)), {"heads.fa_ratio", "0.0625"});
  expect_pieces(refused(by_rule(HeadRule::layer_wise, 0.3)), {"whole layers of 16", "0.285714", "0.321429"});
  HeadsConfig groups = by_rule(HeadRule::global_random, 113.0 / 448);
  groups.unit = HeadUnit::kv_group;
  expect_pieces(refused(groups), {"whole groups of 2", "0.25", "0.254464"});
  HeadsConfig least = by_rule(HeadRule::global_random, 0.125);
  least.min_per_layer = 3;
  expect_pieces(refused(least), {"min_per_layer", "84", "56", "0.1875"});
  HeadsConfig fixed = by_rule(HeadRule::fixed, 0.125);
  fixed.min_per_layer = 3;
  expect_pieces(refused(fixed), {"min_per_layer", "expected at least 3"});
}

TEST(PlanByRule, RulesThatNeedScoresNameSelect) {
  HeadsConfig whole = by_rule(HeadRule::layer_wise, 0.25);
  whole.layers = "scores";
  for (HeadsConfig heads : {by_rule(HeadRule::layer_interp, 0.25), by_rule(HeadRule::global_interp, 0.25),
                            by_rule(HeadRule::global_interp_c, 0.25), whole}) {
    heads.scores = "/x/my-scores.json";
    EXPECT_TRUE(needs_scores(heads));
    expect_pieces(refused(heads), {"heads.rule", std::string(rule_name(heads.rule)), "hydrahead select", "heads.scores",
                                   "/x/my-scores.json"});
    heads.plan = "heads.yaml";
    EXPECT_FALSE(needs_scores(heads));
  }
  whole.layers = "even";
  EXPECT_FALSE(needs_scores(whole));
  EXPECT_FALSE(needs_scores(by_rule(HeadRule::global_random, 0.25)));
}

TEST(PlanByRule, WholeGroups) {
  HeadsConfig heads = by_rule(HeadRule::global_random, 0.25);
  heads.unit = HeadUnit::kv_group;
  const HeadPlan by_head = plan_by_rule(heads, qwen_1_7b(), 0);  // 112 heads in 56 groups
  EXPECT_EQ(by_head.fa_count(), 112);
  EXPECT_EQ(by_head.touched_groups(), 56);
  heads.unit = HeadUnit::head;
  heads.budget = HeadBudget::kv_groups;
  heads.fa_ratio = 0.125;
  const HeadPlan by_group = plan_by_rule(heads, qwen_1_7b(), 0);  // 28 of 224 groups; siblings come free
  EXPECT_EQ(by_group.touched_groups(), 28);
  EXPECT_EQ(by_group.fa_count(), 56);
}

TEST(PlanByRule, AlwaysKeepStaysWithinTheBudget) {
  for (const HeadRule rule : {HeadRule::fixed, HeadRule::layer_random, HeadRule::global_random}) {
    HeadsConfig heads = by_rule(rule, 0.125);
    heads.always_keep = {{4, 1}, {4, 15}, {27, 3}};
    const HeadPlan plan = plan_by_rule(heads, qwen_1_7b(), 0);
    EXPECT_EQ(plan.fa_count(), 56);
    for (const auto& pair : heads.always_keep) {
      const Heads& kept = plan.layers[pair[0]].fa_heads;
      EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), pair[1])) << rule_name(rule);
    }
  }
  HeadsConfig crowded = by_rule(HeadRule::fixed, 0.125);
  crowded.always_keep = {{4, 1}, {4, 2}, {4, 3}};
  expect_pieces(refused(crowded), {"always_keep", "layer 4"});
  HeadsConfig outside = by_rule(HeadRule::layer_wise, 0.25);
  outside.always_keep = {{0, 0}};
  expect_pieces(refused(outside), {"always_keep", "layer 0"});
  outside.always_keep = {{28, 0}};
  expect_pieces(refused(outside), {"always_keep", "[28, 16]"});
}

TEST(PlanFile, WritesAndReads) {
  const test::TempDir dir;
  HeadPlan plan = plan_by_rule(by_rule(HeadRule::global_random, 0.125), qwen_1_7b(), 7);
  plan.teacher_sha256 = std::string(64, 'a');
  write_plan(dir.path() / "heads.yaml", plan);
  const HeadPlan read = read_plan(dir.path() / "heads.yaml", qwen_1_7b(), plan.teacher_sha256);
  EXPECT_EQ(read.rule, "global_random");
  EXPECT_EQ(read.seed, 7);
  EXPECT_EQ(read.teacher_sha256, plan.teacher_sha256);
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    EXPECT_EQ(read.layers[i].fa_heads, plan.layers[i].fa_heads);
  }
  EXPECT_EQ(read_plan(dir.path() / "heads.yaml", qwen_1_7b(), "").fa_count(), 56);
  expect_pieces(refusal([&] { read_plan(dir.path() / "heads.yaml", qwen_1_7b(), std::string(64, 'b')); }),
                {"heads.yaml", "teacher_sha256", "aaaa", "bbbb"});
}

TEST(PlanFile, BadFilesAreRefused) {
  const test::TempDir dir;
  const auto file = dir.path() / "heads.yaml";
  Qwen3Config config = qwen_1_7b();
  config.layers = 2;
  const auto refused_text = [&](const std::string& text) {
    test::write_bytes(file, text);
    return refusal([&] { read_plan(file, config, ""); });
  };
  expect_pieces(refused_text("version: 1\nheads: [[0], [1], [2]]\n"), {"heads.yaml", "found 3", "2 layers"});
  expect_pieces(refused_text("version: 1\nheads: [[0], [16]]\n"), {"layer 1", "16", "0 to 15"});
  expect_pieces(refused_text("version: 1\nheads: [[0], [3, 3]]\n"), {"layer 1", "head 3 stands twice"});
  expect_pieces(refused_text("version: 2\nheads: [[0], [1]]\n"), {"version", "2"});
  expect_pieces(refused_text("heads: [[0], [1]]\n"), {"version"});
  expect_pieces(refused_text("version: 1\nhead: [[0], [1]]\n"), {"heads.yaml:2", "head"});
  expect_pieces(refused_text("version: 1\nheads: [[0], [x]]\n"), {"heads.yaml:2", "x"});
}

TEST(CacheBytes, FollowTouchedGroups) {
  const Qwen3Config config = qwen_1_7b();
  constexpr double gib = 1024.0 * 1024 * 1024;
  const auto kv_at_512k = [&](const HeadPlan& plan) {
    return static_cast<double>(cache_bytes(config, plan, 2, 4, false).kv_per_token) * 524288 / gib;
  };
  const HeadPlan all = plan_by_rule(by_rule(HeadRule::fixed, 1.0), config, 0);
  EXPECT_EQ(cache_bytes(config, all, 2, 4, false).kv_per_token, 114'688);  // the teacher's
  EXPECT_DOUBLE_EQ(kv_at_512k(all), 56.0);
  EXPECT_EQ(cache_bytes(config, all, 2, 4, false).constant, 0);
  HeadsConfig aligned = by_rule(HeadRule::global_random, 0.25);
  aligned.unit = HeadUnit::kv_group;
  EXPECT_DOUBLE_EQ(kv_at_512k(plan_by_rule(aligned, config, 0)), 14.0);
  aligned.fa_ratio = 0.125;
  EXPECT_DOUBLE_EQ(kv_at_512k(plan_by_rule(aligned, config, 0)), 7.0);
  // Four heads a layer in four groups: 112 groups, half of the teacher's.
  EXPECT_DOUBLE_EQ(kv_at_512k(plan_by_rule(by_rule(HeadRule::fixed, 0.25), config, 0)), 28.0);
  const HeadPlan quarter = plan_by_rule(by_rule(HeadRule::global_random, 0.25), config, 3);
  EXPECT_EQ(cache_bytes(config, quarter, 2, 4, false).kv_per_token, quarter.touched_groups() * 512);
  EXPECT_EQ(cache_bytes(config, quarter, 2, 4, false).constant, 336 * 65'536);  // 21 MiB
  EXPECT_EQ(cache_bytes(config, quarter, 2, 2, false).constant, 336 * 32'768);
  EXPECT_EQ(cache_bytes(config, quarter, 2, 4, true).constant, 336 * (65'536 + 3 * 3 * 128 * 2));
}

}  // namespace
}  // namespace hydra::model
