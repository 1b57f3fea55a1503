#include "hydrahead/model/head_scores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "hydrahead/base/files.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::model {
namespace {

using test::expect_pieces;
using test::refusal;

Qwen3Config two_by_three() {
  Qwen3Config config;
  config.layers = 2;
  config.heads = config.kv_heads = 3;
  return config;
}

const std::string hash(64, 'a');

HeadScores example() {
  HeadScores scores{.teacher_sha256 = hash, .method = "interp", .layers = {}};
  scores.layers = {{{1.0 / 3, 0.5, -0.25}, {0, -1e-300, 0}, {1, 1.5, 7}}, {{0, 0, 0}, {0, 0, 1e-9}, {0.1, 0, 0}}};
  return scores;
}

TEST(HeadScores, RankingUsesEveryKey) {
  EXPECT_EQ(ranking(example()), (std::vector<LayerHead>{{0, 2}, {0, 0}, {1, 2}, {1, 1}, {1, 0}, {0, 1}}));
  // Few values, many ties: each neighbour must stand rightly against the next, by (score, effect, attribution, place).
  std::mt19937 random(1);
  HeadScores scores;
  scores.layers.assign(28, std::vector<HeadScore>(16));
  for (auto& layer : scores.layers) {
    for (HeadScore& head : layer) {
      head = {static_cast<double>(random() % 3), static_cast<double>(random() % 3) - 1,
              static_cast<double>(random() % 2)};
    }
  }
  const auto order = ranking(scores);
  ASSERT_EQ(order.size(), 448u);
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const HeadScore& a = scores.layers[order[i].first][order[i].second];
    const HeadScore& b = scores.layers[order[i + 1].first][order[i + 1].second];
    const bool before = a.score > b.score ||
                        (a.score == b.score &&
                         (a.effect > b.effect ||
                          (a.effect == b.effect &&
                           (a.attribution > b.attribution ||
                            (a.attribution == b.attribution &&
                             order[i].first * 16 + order[i].second < order[i + 1].first * 16 + order[i + 1].second)))));
    EXPECT_TRUE(before) << i;
  }
}

TEST(HeadScores, FilesKeepEveryBit) {
  const test::TempDir dir;
  const auto file = dir.path() / "scores.json";
  Json json = to_json(example());
  EXPECT_EQ(json.at("format"), "hydrahead scores 1");
  EXPECT_EQ(json.at("layers"), 2);
  EXPECT_EQ(json.at("heads"), 3);
  json["capabilities"] = {{{"name", "single"}}};  // what only the report needs
  json["probes"] = Json::array();
  write_file_atomic(file, json.dump(1));
  for (const std::string& teacher : {hash, std::string()}) {
    const HeadScores read = read_scores(file, two_by_three(), teacher);
    EXPECT_EQ(read.teacher_sha256, hash);
    EXPECT_EQ(read.method, "interp");
    EXPECT_EQ(to_json(read).dump(), to_json(example()).dump());
    EXPECT_EQ(read.layers[0][0].score, 1.0 / 3);
    EXPECT_EQ(read.layers[0][1].effect, -1e-300);
  }
}

class BadScores : public ::testing::Test {
 protected:
  std::string refused_text(const std::string& text) const {
    const auto file = dir_.path() / "scores.json";
    write_file_atomic(file, text);
    const std::string message = refusal([&] { read_scores(file, two_by_three(), hash); });
    expect_pieces(message, {"scores.json"});
    return message;
  }
  std::string refused(const std::function<void(Json&)>& change) const {
    Json json = to_json(example());
    change(json);
    return refused_text(json.dump());
  }
  test::TempDir dir_;
};

TEST_F(BadScores, NotSuchAFile) {
  expect_pieces(refusal([&] { read_scores(dir_.path() / "none.json", two_by_three(), hash); }), {"none.json"});
  const std::string whole = to_json(example()).dump();
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
    expect_pieces(refused_text(whole.substr(0, length)), {"not valid JSON"});
  }
  expect_pieces(refused_text("[]"), {"found array", "expected an object"});
  expect_pieces(refused_text("{}"), {"format", "found nothing", "hydrahead scores 1"});
  expect_pieces(refused([](Json& json) { json["format"] = "hydrahead scores 2"; }), {"format", "scores 2", "scores 1"});
  expect_pieces(refused([](Json& json) { json.erase("method"); }), {"method", "found nothing", "expected text"});
  expect_pieces(refused([](Json& json) { json["teacher_sha256"] = 5; }), {"teacher_sha256", "found 5"});
  expect_pieces(refused([](Json& json) { json["teacher_sha256"] = std::string(64, 'b'); }),
                {"teacher_sha256", "bbbb", "of this teacher", "aaaa"});
}

TEST_F(BadScores, OtherShapes) {
  expect_pieces(refused([](Json& json) { json["layers"] = 3; }), {"layers: found 3", "2"});
  expect_pieces(refused([](Json& json) { json.erase("heads"); }), {"heads: found nothing", "3"});
  expect_pieces(refused([](Json& json) { json["scores"].erase(1); }), {"scores: found 1 layers", "expected 2 layers"});
  expect_pieces(refused([](Json& json) { json.erase("scores"); }), {"scores: found null", "2 layers"});
  expect_pieces(refused([](Json& json) { json["scores"][1].erase(0); }), {"scores[1]: found 2 heads", "3 heads"});
  expect_pieces(refused([](Json& json) { json["scores"][1] = 0.5; }), {"scores[1]: found number", "3 heads"});
  expect_pieces(refused([](Json& json) { json["scores"][0][2] = 0.5; }), {"scores[0][2]", "expected an object"});
}

TEST_F(BadScores, OtherValues) {
  expect_pieces(refused([](Json& json) { json["scores"][0][2].erase("effect"); }),
                {"scores[0][2]", "effect: found nothing"});
  expect_pieces(refused([](Json& json) { json["scores"][0][2]["rank"] = 1; }), {"scores[0][2]: found 4 keys"});
  expect_pieces(refused([](Json& json) { json["scores"][1][0]["attribution"] = "0.1"; }),
                {"scores[1][0]", "attribution", "\"0.1\"", "finite number"});
  for (const double range : {-0.1, 1.5}) {
    expect_pieces(refused([&](Json& json) { json["scores"][1][0]["score"] = range; }),
                  {"scores[1][0]", "score", "0 to 1"});
  }
  // A NaN that a program wrote as null, as NaN, and a number beyond the range of doubles.
  const Json nan = std::numeric_limits<double>::quiet_NaN();
  expect_pieces(refused([&](Json& json) { json["scores"][1][0]["score"] = nan; }),
                {"scores[1][0]", "score: found null", "finite number"});
  std::string text = to_json(example()).dump();
  const std::size_t at = text.find("7.0");
  ASSERT_NE(at, std::string::npos);
  expect_pieces(refused_text(text.replace(at, 3, "NaN")), {"not valid JSON"});
  expect_pieces(refused_text(text.replace(at, 3, "1e999")), {"not valid JSON"});
}

}  // namespace
}  // namespace hydra::model
