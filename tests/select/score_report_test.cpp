// The files of a selection, from effects that are known: every figure is found again, and the page stands alone.

#include "hydrahead/select/score_report.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hydrahead/base/files.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/xml_check.hpp"

namespace hydra::select {
namespace {

using test::expect_pieces;

model::Qwen3Config small() {
  model::Qwen3Config config;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  return config;
}

at::Tensor heads(const std::vector<double>& values) { return at::tensor(values, at::kDouble).view({2, 4}); }

ProbeEffects probe(const std::string& name, const std::string& capability, const std::vector<double>& receive,
                   const std::vector<double>& send) {
  ProbeEffects effects;
  effects.probe = name;
  effects.capability = capability;
  effects.pairs = 7;
  effects.dropped = 1;
  effects.receive_raw = heads(receive);
  effects.receive = effects.receive_raw.clamp(0, 1);
  effects.send_raw = heads(send);
  effects.send = effects.send_raw.clamp(0, 1);
  effects.attribution = heads({-0.5, 0, 0, 0, 0, 0, 0.25, 0});
  return effects;
}

// Head 1.2 receives, head 0.1 sends to it; the third capability has no pairs.
ScoreReport example(double fa_ratio) {
  ScoreReport report;
  report.model_name = "a <b> & c";
  report.settings = {{"method", "interp"}};
  report.probes = {probe("niah_single_1", "single", {0, 0, 0, 0, 0, 0, 0.9, 0}, {-0.002, 0.45, 0, 0, 0, 0, 0.1, 0}),
                   probe("niah_multikey_1", "multi", {0, 0, 0, 0, 0, 0, 1.25, 0.005}, {0, 0.2, 0, 0, 0, 0, 0, 0}),
                   probe("addition", "general", {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0})};
  report.probes[2].pairs = 0;
  report.probes[2].dropped = 8;
  report.fused = fuse(report.probes, {}, 0.01);
  report.scores = {.teacher_sha256 = std::string(64, 'a'), .method = "interp", .layers = {}};
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    report.scores.layers.emplace_back();
    for (std::int64_t head = 0; head < 4; ++head) {
      report.scores.layers.back().push_back({.score = report.fused.score[layer][head].item<double>(),
                                             .effect = report.fused.effect[layer][head].item<double>(),
                                             .attribution = report.fused.attribution[layer][head].item<double>()});
    }
  }
  model::HeadsConfig config;
  config.rule = model::HeadRule::global_interp;
  config.fa_ratio = fa_ratio;
  report.plan = model::plan_by_rule(config, small(), 0, &report.scores);
  return report;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(ScoreReport, JsonHoldsEveryFigureAndIsReadAsScores) {
  const test::TempDir dir;
  const ScoreReport report = example(0.25);
  write_score_report(dir.path() / "out", report);
  const fs::path file = dir.path() / "out" / "scores.json";
  const model::HeadScores read = model::read_scores(file, small(), std::string(64, 'a'));
  EXPECT_EQ(model::to_json(read).dump(), model::to_json(report.scores).dump());
  EXPECT_DOUBLE_EQ(read.layers[0][1].score, (0.45 / 0.9 + 0.2 / 1.0) / 2);  // 1.25 is clipped to 1
  EXPECT_DOUBLE_EQ(read.layers[1][2].effect, (0.9 + 1.25) / 2);
  const Json json = read_json_file(file.string());
  ASSERT_EQ(json.at("capabilities").size(), 2u);
  const Json& multi = json.at("capabilities")[1];
  EXPECT_EQ(multi.at("name"), "multi");
  EXPECT_EQ(multi.at("receive")[1], (Json{0.0, 0.0, 1.0, 0.005}));
  EXPECT_EQ(multi.at("send")[0], (Json{0.0, 0.2, 0.0, 0.0}));
  EXPECT_EQ(multi.at("sends")[0], (Json{0.0, 1.0, 0.0, 0.0}));
  EXPECT_EQ(multi.at("kappa")[1], (Json{0.0, 0.0, 1.0, 0.0}));
  EXPECT_EQ(json.at("left_out"), (Json{"general"}));
  ASSERT_EQ(json.at("probes").size(), 3u);
  EXPECT_EQ(json.at("probes")[0].at("send_raw")[0], (Json{-0.002, 0.45, 0.0, 0.0}));
  EXPECT_EQ(json.at("probes")[0].at("pairs"), 7);
  EXPECT_EQ(json.at("probes")[2].at("dropped"), 8);
  EXPECT_EQ(json.at("slots").at("by_score"), 2);
  EXPECT_EQ(json.at("slots").at("total"), 2);
}

TEST(ScoreReport, EffectsOfEveryPairAreListed) {
  const test::TempDir dir;
  ScoreReport report = example(0.25);
  report.probes[0].pair_ids = {"a \"b\", c/0", "d/1"};
  report.probes[0].pair_receive =
      at::stack({heads({0, 0, 0, 0, 0, 0, 1.25, 0}), heads({0, 0, 0, 0, 0, 0, 0.55, -0.5})});
  report.probes[0].pair_send = at::zeros({2, 2, 4}, at::kDouble);
  report.probes[0].pair_send[1][0][1] = 0.125;
  write_score_report(dir.path(), report);
  const std::string csv = read_file(dir.path() / "effects.csv");
  EXPECT_EQ(count(csv, "\n"), 1u + 2 * 2 * 8);
  EXPECT_TRUE(csv.starts_with(
      "pair,capability,layer,head,role,clipped,raw\n\"a \"\"b\"\", c/0\",\"single\",0,0,receive,0,0\n"));
  expect_pieces(csv, {"c/0\",\"single\",1,2,receive,1,1.25\n", "\"d/1\",\"single\",1,2,receive,0.55,0.55\n",
                      "\"d/1\",\"single\",1,3,receive,0,-0.5\n", "\"d/1\",\"single\",0,1,send,0.125,0.125\n"});
}

TEST(ScoreReport, TablesRankTheHeads) {
  const test::TempDir dir;
  const std::string text = write_score_report(dir.path(), example(0.25));
  const std::string file = read_file(dir.path() / "scores.md");
  for (const std::string* found : {&text, &file}) {
    expect_pieces(
        *found, {"| 1 | 1 | 2 | 1.000 | 1.0750 | 0.2500 | 1.000 (1.00 recv) | 1.000 (1.00 recv) | yes |",
                 "| 2 | 0 | 1 | 0.350 | 0.3250 | 0.0000 | 0.500 (1.00 send) | 0.200 (1.00 send) | yes |",
                 "| 3 | 1 | 3 | 0.000 | 0.0025 | 0.0000 | 0.000 (0.00) | 0.000 (0.00 recv) | no |",
                 "| niah_single_1 | single | 7 | 1 | 0.900, layer 1 head 2 |", "| addition | general | 0 | 8 | - |",
                 "global_interp: 2 of 8", "touch: 2", "that the score decided: 2.", "Capability general is left out"});
    EXPECT_EQ(found->find("Warning"), std::string::npos);
  }
}

TEST(ScoreReport, TiesAreNotHidden) {
  // Of five places the score fills two, the effect one (1.3), the attribution none, the order two.
  const test::TempDir dir;
  const std::string text = write_score_report(dir.path(), example(5.0 / 8));
  expect_pieces(text, {"5 of 8", "above 0: 2", "that the score decided: 2", "at equal scores: 1",
                       "order of the heads: 2", "Warning: ties filled most places"});
  EXPECT_EQ(write_score_report(dir.path(), example(0.5)).find("Warning"), std::string::npos);  // two of four
}

TEST(ScoreReport, PageFramesThePlanAndStandsAlone) {
  const test::TempDir dir;
  write_score_report(dir.path(), example(0.25));
  const std::string html = read_file(dir.path() / "report.html");
  EXPECT_EQ(test::xml_problem(html), "");
  for (const char* outside : {"href=\"http", "src=", "<script", "url(", "@import", ">nan", " nan"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  expect_pieces(html, {"a &lt;b&gt; &amp; c", "Capability single", "Capability multi", "Probe niah_multikey_1",
                       "layer 1 head 2: 1.0000, full attention", "layer 1 head 3: 0.0025<", "as sender"});
  EXPECT_EQ(html.find("Probe addition"), std::string::npos);
  // 3 maps of all, 4 a capability, 2 a probe with pairs; 2 frames on each.
  EXPECT_EQ(count(html, "<svg "), 3u + 2 * 4 + 2 * 2);
  EXPECT_EQ(count(html, "fill=\"none\""), 2 * count(html, "<svg "));
}

TEST(ScoreReport, ScoresOfAFileAndOfOneRole) {
  const test::TempDir dir;
  ScoreReport bare = example(0.25);
  bare.settings = nullptr;
  bare.probes.clear();
  bare.fused = {};
  const std::string text = write_score_report(dir.path(), bare);
  expect_pieces(text, {"| 1 | 1 | 2 | 1.000 | 1.0750 | 0.2500 | yes |"});
  EXPECT_EQ(test::xml_problem(read_file(dir.path() / "report.html")), "");
  EXPECT_FALSE(fs::exists(dir.path() / "effects.csv"));

  ScoreReport single_role = example(0.25);
  for (ProbeEffects& probe : single_role.probes) {
    probe.send = probe.send_raw = at::Tensor();
  }
  single_role.fused = fuse(single_role.probes, {}, 0.01);
  expect_pieces(write_score_report(dir.path(), single_role), {"single (kappa) |", "| 1.000 (1.00) |"});
  EXPECT_FALSE(read_json_file((dir.path() / "scores.json").string()).at("capabilities")[0].contains("send"));
  EXPECT_EQ(read_file(dir.path() / "report.html").find("as sender"), std::string::npos);
}

}  // namespace
}  // namespace hydra::select
