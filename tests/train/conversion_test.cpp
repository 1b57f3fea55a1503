// The head plan of a conversion: rule, scores of the teacher, or plan file.

#include "hydrahead/train/conversion.hpp"

#include <gtest/gtest.h>

#include "hydrahead/base/files.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::train {
namespace {

using test::expect_pieces;
using test::refusal;

class ChoosePlan : public ::testing::Test {
 protected:
  static const io::HfModelDir& teacher() {
    static const io::HfModelDir dir = io::HfModelDir::open(fs::path(HYDRA_FIXTURES) / "qwen3-nano");
    return dir;
  }
  static const model::Qwen3Config& config() {
    static const model::Qwen3Config read = model::read_model_config(teacher()).base;
    return read;
  }
  // Heads 4.0 and 1.3 of nano's six layers of four.
  static model::HeadScores scores(const std::string& sha256) {
    model::HeadScores scores{.teacher_sha256 = sha256, .method = "interp", .layers = {}};
    scores.layers.assign(6, std::vector<model::HeadScore>(4));
    scores.layers[4][0].score = 1;
    scores.layers[1][3].score = 0.5;
    return scores;
  }
  model::HeadsConfig by_scores() const {
    model::HeadsConfig heads;
    heads.rule = model::HeadRule::global_interp;
    heads.fa_ratio = 2.0 / 24;
    heads.scores = dir_.path() / "scores.json";
    return heads;
  }
  void write(const model::HeadScores& scores) const {
    write_file_atomic(dir_.path() / "scores.json", model::to_json(scores).dump());
  }
  std::string refused(const model::HeadsConfig& heads) const {
    return refusal([&] { choose_plan(heads, teacher(), config(), 0); });
  }
  test::TempDir dir_;
};

TEST_F(ChoosePlan, RulesByScoreReadTheScoresOfThisTeacher) {
  write(scores(teacher().sha256()));
  const model::HeadPlan plan = choose_plan(by_scores(), teacher(), config(), 0);
  EXPECT_EQ(plan.fa_count(), 2);
  EXPECT_EQ(plan.layers[4].fa_heads, (std::vector<std::int64_t>{0}));
  EXPECT_EQ(plan.layers[1].fa_heads, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(plan.teacher_sha256, teacher().sha256());
  EXPECT_EQ(plan.rule, "global_interp");
}

TEST_F(ChoosePlan, ScoresThatAreMissingOrNotOfThisTeacherAreRefused) {
  expect_pieces(refused(by_scores()), {"heads.scores", "scores.json", "global_interp", "hydrahead select"});
  write(scores(std::string(64, 'b')));
  expect_pieces(refused(by_scores()), {"scores.json", "teacher_sha256", "bbbb", teacher().sha256()});
  model::HeadScores shorter = scores(teacher().sha256());
  shorter.layers.pop_back();
  write(shorter);
  expect_pieces(refused(by_scores()), {"scores.json", "layers: found 5", "6"});
}

TEST_F(ChoosePlan, OtherRulesAndPlanFilesNeedNoScores) {
  write_file_atomic(dir_.path() / "scores.json", "no scores");
  model::HeadsConfig heads = by_scores();
  heads.rule = model::HeadRule::fixed;
  heads.fa_ratio = 0.25;
  const model::HeadPlan plan = choose_plan(heads, teacher(), config(), 0);
  EXPECT_EQ(plan.fa_count(), 6);
  model::write_plan(dir_.path() / "heads.yaml", plan);
  heads = by_scores();
  heads.plan = dir_.path() / "heads.yaml";
  EXPECT_EQ(choose_plan(heads, teacher(), config(), 0).fa_count(), 6);
}

}  // namespace
}  // namespace hydra::train
