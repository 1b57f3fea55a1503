#include "hydrahead/eval/score.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "hydrahead/base/json.hpp"

namespace hydra::eval {
namespace {

double round2(double value) { return std::round(value * 100.0) / 100.0; }

// Scores made by running RULER's own functions.
TEST(Score, RulersMetricCases) {
  const Json file = read_json_file(std::string(HYDRA_FIXTURES) + "/ruler/metric_cases.json");
  ASSERT_EQ(file["cases"].size(), 11u);
  for (const Json& entry : file["cases"]) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    const auto references = entry["refs"].get<std::vector<std::string>>();
    const std::string prediction = postprocess(entry["pred_raw"].get<std::string>());
    EXPECT_EQ(prediction, entry["pred_postprocessed"].get<std::string>());
    EXPECT_DOUBLE_EQ(round2(string_match_all(prediction, references)), entry["string_match_all"].get<double>());
    EXPECT_DOUBLE_EQ(round2(string_match_part(prediction, references)), entry["string_match_part"].get<double>());
    EXPECT_DOUBLE_EQ(score_sample(prediction, references).score, entry["lm_eval_all"].get<double>());
  }
  const Json& aggregate = file["aggregate"];
  double all = 0, part = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto references = aggregate["refs"][i].get<std::vector<std::string>>();
    all += string_match_all(aggregate["preds"][i].get<std::string>(), references);
    part += string_match_part(aggregate["preds"][i].get<std::string>(), references);
  }
  EXPECT_DOUBLE_EQ(round2(all / 3), aggregate["string_match_all"].get<double>());
  EXPECT_DOUBLE_EQ(round2(part / 3), aggregate["string_match_part"].get<double>());
}

TEST(Score, StrictNeedsFreeEnds) {
  const std::vector<std::string> number = {"7234158"};
  EXPECT_EQ(score_sample("17234158", number).score, 1.0);
  EXPECT_EQ(score_sample("17234158", number).strict, 0.0);
  EXPECT_EQ(score_sample("x 7234158.", number).strict, 1.0);
  EXPECT_EQ(score_sample("7234158a or (7234158)", number).strict, 1.0);
}

TEST(Score, PrecisionCountsItemsOfTheAnswersKind) {
  const std::vector<std::string> numbers = {"1111111", "2222222"};
  const SampleScore score = score_sample("1111111, 2222222, 3333333 and 4444444", numbers);
  EXPECT_EQ(score.score, 1.0);
  EXPECT_EQ(score.precision, 0.5);
  EXPECT_NEAR(score.f1, 2.0 / 3, 1e-12);
  EXPECT_EQ(score_sample("1111111 1111111", numbers).precision, 1.0);  // repeated, not wrong
  EXPECT_EQ(score_sample("11111112222222", numbers).precision, 1.0);
  EXPECT_EQ(score_sample("none", numbers).precision, 0.0);
  const std::vector<std::string> uuid = {"0a1b2c3d-0000-4000-8000-00000000000f"};
  EXPECT_EQ(answer_kind(uuid), AnswerKind::uuid);
  EXPECT_EQ(
      score_sample("0A1B2C3D-0000-4000-8000-00000000000F, ffffffff-0000-4000-8000-00000000000f 12", uuid).precision,
      0.5);
  const std::vector<std::string> word = {"quiet-stone"};
  EXPECT_EQ(answer_kind(word), AnswerKind::word);
}

TEST(Score, PostprocessStripsUnicodeSpaces) {
  EXPECT_EQ(postprocess("\xC2\xA0 7\x01 8\xE3\x80\x80\n"), "7\n 8");
  EXPECT_EQ(postprocess("\x1f\x02"), "");
  EXPECT_EQ(postprocess("\xFFx "), "\xFFx");  // a malformed byte stays
}

TEST(Score, WilsonIntervals) {
  struct Case {
    double hits;
    std::size_t n;
    double low, high;
  };
  for (const Case& c :
       {Case{500, 500, 99.24, 100}, Case{0, 20, 0, 16.11}, Case{19, 20, 76.39, 99.11}, Case{428, 500, 82.25, 88.41}}) {
    const Interval interval = wilson_interval(c.hits / static_cast<double>(c.n), c.n);
    EXPECT_DOUBLE_EQ(round2(100 * interval.low), c.low);
    EXPECT_DOUBLE_EQ(round2(100 * interval.high), c.high);
  }
}

}  // namespace
}  // namespace hydra::eval
