// Plans from scores (method.md 3.5), against lists written down by hand, and what the report says about their places.

#include <gtest/gtest.h>

#include <algorithm>

#include "hydrahead/model/head_plan.hpp"
#include "hydrahead/model/slot_report.hpp"
#include "tests/support/messages.hpp"

namespace hydra::model {
namespace {

using Heads = std::vector<std::int64_t>;
using Lists = std::vector<Heads>;
using test::expect_pieces;
using test::refusal;

// Four layers of four heads, two KV heads.
Qwen3Config small() {
  Qwen3Config config;
  config.layers = 4;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  return config;
}

// The ranking: 1.3 1.0 3.2 0.1 2.2 | score 0, by effect: 3.3 0.3 | by attribution: 2.1 | by order: 0.0 0.2 1.1 1.2 2.0
// 2.3 3.0 3.1.
HeadScores scores() {
  HeadScores scores{.teacher_sha256 = "t", .method = "interp", .layers = {}};
  scores.layers = {
      {{0, 0, 0}, {0.2, 0, 0}, {0, 0, 0}, {0, 0.01, -1}},
      {{0.8, 0, 0}, {0, 0, 0}, {0, 0, 0}, {1.0, 0, 0}},
      {{0, 0, 0}, {0, 0, 0.5}, {0.1, 0, 0}, {0, 0, 0}},
      {{0, 0, 0}, {0, 0, 0}, {0.3, 0, 0}, {0, 0.02, 0}},
  };
  return scores;
}

HeadsConfig by_rule(HeadRule rule, int heads) {
  HeadsConfig config;
  config.rule = rule;
  config.fa_ratio = heads / 16.0;
  return config;
}

HeadPlan plan_of(const HeadsConfig& heads) {
  const HeadScores given = scores();
  return plan_by_rule(heads, small(), 0, &given);
}

Lists lists(const HeadPlan& plan) {
  Lists result;
  for (const LayerPlan& layer : plan.layers) {
    result.push_back(layer.fa_heads);
  }
  return result;
}
Lists lists(const HeadsConfig& heads) { return lists(plan_of(heads)); }

std::string refused(const HeadsConfig& heads) {
  return refusal([&] { plan_of(heads); });
}

TEST(ScoredPlan, GlobalTakesTheBestOfTheModel) {
  EXPECT_EQ(lists(by_rule(HeadRule::global_interp, 0)), (Lists{{}, {}, {}, {}}));
  EXPECT_EQ(lists(by_rule(HeadRule::global_interp, 1)), (Lists{{}, {3}, {}, {}}));
  EXPECT_EQ(lists(by_rule(HeadRule::global_interp, 3)), (Lists{{}, {0, 3}, {}, {2}}));
  EXPECT_EQ(lists(by_rule(HeadRule::global_interp, 6)), (Lists{{1}, {0, 3}, {2}, {2, 3}}));
  EXPECT_EQ(lists(by_rule(HeadRule::global_interp, 7)), (Lists{{1, 3}, {0, 3}, {2}, {2, 3}}));
  EXPECT_EQ(lists(by_rule(HeadRule::global_interp, 10)), (Lists{{0, 1, 2, 3}, {0, 3}, {1, 2}, {2, 3}}));
  EXPECT_EQ(plan_of(by_rule(HeadRule::global_interp, 3)).rule, "global_interp");
  HeadsConfig least = by_rule(HeadRule::global_interp, 4);
  least.min_per_layer = 1;
  EXPECT_EQ(lists(least), (Lists{{1}, {3}, {2}, {2}}));
}

TEST(ScoredPlan, TheBestOfEveryLayerComesFirst) {
  EXPECT_EQ(lists(by_rule(HeadRule::global_interp_c, 4)), (Lists{{1}, {3}, {2}, {2}}));
  EXPECT_EQ(lists(by_rule(HeadRule::global_interp_c, 5)), (Lists{{1}, {0, 3}, {2}, {2}}));
  EXPECT_EQ(lists(by_rule(HeadRule::global_interp_c, 6)), (Lists{{1}, {0, 3}, {2}, {2, 3}}));
  HeadsConfig two = by_rule(HeadRule::global_interp_c, 8);
  two.min_per_layer = 2;
  EXPECT_EQ(lists(two), (Lists{{1, 3}, {0, 3}, {1, 2}, {2, 3}}));
  expect_pieces(refused(by_rule(HeadRule::global_interp_c, 3)),
                {"heads.fa_ratio", "3 of 16", "global_interp_c", "4 layers", "nearest ratio is 0.25"});
  two.fa_ratio = 7 / 16.0;
  expect_pieces(refused(two), {"heads.min_per_layer", "needs 8", "7 of 16", "0.5"});
}

TEST(ScoredPlan, LayersShareEvenly) {
  EXPECT_EQ(lists(by_rule(HeadRule::layer_interp, 8)), (Lists{{1, 3}, {0, 3}, {1, 2}, {2, 3}}));
  EXPECT_EQ(lists(by_rule(HeadRule::layer_interp, 6)), (Lists{{1, 3}, {0, 3}, {2}, {2}}));  // a remainder of 2
  expect_pieces(refused(by_rule(HeadRule::layer_interp, 3)), {"layer_interp", "nearest ratio is 0.25"});
}

TEST(ScoredPlan, WholeLayersBySumsOfScores) {
  HeadsConfig heads = by_rule(HeadRule::layer_wise, 4);
  heads.layers = "scores";  // sums: 0.2 1.8 0.1 0.3
  EXPECT_EQ(lists(heads), (Lists{{}, {0, 1, 2, 3}, {}, {}}));
  heads.fa_ratio = 0.5;
  EXPECT_EQ(lists(heads), (Lists{{}, {0, 1, 2, 3}, {}, {0, 1, 2, 3}}));
  heads.always_keep = {{2, 1}};
  EXPECT_EQ(lists(heads), (Lists{{}, {0, 1, 2, 3}, {0, 1, 2, 3}, {}}));
  heads.fa_ratio = 6 / 16.0;
  expect_pieces(refused(heads), {"whole layers of 4", "0.25 and 0.5"});
  // Equal sums of scores: the effects' sums decide, then the layers' order.
  HeadScores even = scores();
  for (auto& layer : even.layers) {
    layer = {{0.5, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  }
  even.layers[3][2].effect = 0.1;
  heads.always_keep.clear();
  heads.fa_ratio = 0.5;
  EXPECT_EQ(lists(plan_by_rule(heads, small(), 0, &even)), (Lists{{0, 1, 2, 3}, {}, {}, {0, 1, 2, 3}}));
}

TEST(ScoredPlan, AGroupScoresAsItsBestHead) {
  // Groups by their best heads: 1.1 (head 3), 1.0 (head 0), 3.1 (head 2), 0.0 (head 1), 2.1 (head 2), 0.1, 2.0, 3.0.
  HeadsConfig heads = by_rule(HeadRule::global_interp, 6);
  heads.unit = HeadUnit::kv_group;
  EXPECT_EQ(lists(heads), (Lists{{}, {0, 1, 2, 3}, {}, {2, 3}}));
  heads.fa_ratio = 12 / 16.0;
  EXPECT_EQ(lists(heads), (Lists{{0, 1, 2, 3}, {0, 1, 2, 3}, {2, 3}, {2, 3}}));
  heads.rule = HeadRule::global_interp_c;
  heads.fa_ratio = 8 / 16.0;
  EXPECT_EQ(lists(heads), (Lists{{0, 1}, {2, 3}, {2, 3}, {2, 3}}));
  heads.fa_ratio = 6 / 16.0;
  expect_pieces(refused(heads), {"3 of 8 KV groups", "nearest ratio is 0.5"});
  heads.fa_ratio = 5 / 16.0;
  expect_pieces(refused(heads), {"whole groups of 2", "0.25 and 0.375"});
}

TEST(ScoredPlan, SiblingsInAPaidGroupComeFree) {
  HeadsConfig heads = by_rule(HeadRule::global_interp, 0);
  heads.budget = HeadBudget::kv_groups;
  heads.fa_ratio = 3 / 8.0;  // three of eight groups, six heads
  const HeadPlan plan = plan_of(heads);
  EXPECT_EQ(plan.touched_groups(), 3);
  EXPECT_EQ(lists(plan), (Lists{{}, {0, 1, 2, 3}, {}, {2, 3}}));
  heads.rule = HeadRule::layer_interp;
  heads.fa_ratio = 0.5;
  EXPECT_EQ(lists(heads), (Lists{{0, 1}, {2, 3}, {2, 3}, {2, 3}}));
}

TEST(ScoredPlan, AlwaysKeepStaysWithinTheBudget) {
  HeadsConfig heads = by_rule(HeadRule::global_interp, 3);
  heads.always_keep = {{2, 3}};
  EXPECT_EQ(lists(heads), (Lists{{}, {0, 3}, {3}, {}}));
  heads.rule = HeadRule::global_interp_c;  // layer 2 has its head
  heads.fa_ratio = 5 / 16.0;
  EXPECT_EQ(lists(heads), (Lists{{1}, {0, 3}, {3}, {2}}));
  heads.rule = HeadRule::layer_interp;
  heads.fa_ratio = 4 / 16.0;
  EXPECT_EQ(lists(heads), (Lists{{1}, {3}, {3}, {2}}));
  heads.always_keep = {{2, 3}, {2, 0}};
  expect_pieces(refused(heads), {"heads.always_keep", "layer 2", "layer_interp"});
  heads.rule = HeadRule::global_interp;
  heads.fa_ratio = 1 / 16.0;
  expect_pieces(refused(heads), {"heads.always_keep", "2 heads", "more than the 1"});
}

std::vector<std::int64_t> slots(const HeadPlan& plan, const HeadScores& given) {
  const SlotReport report = count_slots(plan, given);
  EXPECT_EQ(report.by_score + report.by_ties() + report.given, report.total);
  EXPECT_EQ(report.total, plan.fa_count());
  return {report.by_score, report.by_effect, report.by_attribution, report.by_order, report.given, report.above_zero};
}
std::vector<std::int64_t> slots(const HeadsConfig& heads) { return slots(plan_of(heads), scores()); }

TEST(SlotReport, SaysWhichKeyDecided) {
  //                                                        score effect attribution order given | above zero
  EXPECT_EQ(slots(by_rule(HeadRule::global_interp, 3)), (Heads{3, 0, 0, 0, 0, 3}));
  EXPECT_EQ(slots(by_rule(HeadRule::global_interp, 6)), (Heads{5, 1, 0, 0, 0, 5}));
  EXPECT_EQ(slots(by_rule(HeadRule::global_interp, 8)), (Heads{5, 2, 1, 0, 0, 5}));
  EXPECT_EQ(slots(by_rule(HeadRule::global_interp, 10)), (Heads{5, 2, 1, 2, 0, 5}));
  EXPECT_EQ(slots(by_rule(HeadRule::global_interp, 16)), (Heads{0, 0, 0, 0, 16, 5}));  // nothing to decide
}

TEST(SlotReport, LayersWithTheirOwnShareDecideAmongThemselves) {
  // 1.3 stands before all; 0.1, 2.2 and 3.2 before their layers' others.
  EXPECT_EQ(slots(by_rule(HeadRule::global_interp_c, 4)), (Heads{4, 0, 0, 0, 0, 4}));
  EXPECT_EQ(slots(by_rule(HeadRule::layer_interp, 8)), (Heads{5, 2, 1, 0, 0, 5}));
  HeadScores flat = scores();
  flat.layers[2] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  const HeadPlan plan = plan_by_rule(by_rule(HeadRule::global_interp_c, 4), small(), 0, &flat);
  EXPECT_EQ(plan.layers[2].fa_heads, Heads{0});
  EXPECT_EQ(slots(plan, flat), (Heads{3, 0, 0, 1, 0, 3}));
}

TEST(SlotReport, WhatWasNotWonIsGiven) {
  HeadsConfig heads = by_rule(HeadRule::global_interp, 3);
  heads.always_keep = {{2, 3}};
  EXPECT_EQ(slots(heads), (Heads{2, 0, 0, 0, 1, 2}));
  heads.always_keep.clear();
  heads.unit = HeadUnit::kv_group;
  heads.fa_ratio = 4 / 16.0;  // heads 0 and 3 of layer 1, and the siblings 1 and 2
  EXPECT_EQ(slots(heads), (Heads{2, 0, 0, 0, 2, 2}));
  heads = by_rule(HeadRule::layer_wise, 4);
  heads.layers = "scores";
  EXPECT_EQ(slots(heads), (Heads{2, 0, 0, 0, 2, 2}));
  heads.layers = "";
  heads.layer_list = {3};
  EXPECT_EQ(slots(heads), (Heads{0, 0, 0, 0, 4, 1}));
}

}  // namespace
}  // namespace hydra::model
