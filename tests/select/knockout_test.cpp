// Knockout curves on the bundled teacher, which finds needles, and their table.

#include "hydrahead/select/knockout.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/xml_check.hpp"

namespace hydra::select {
namespace {

class KnockoutTest : public ::testing::Test {
 protected:
  static const model::Model& teacher() {
    static const model::Model loaded = model::load_model(nano(), {});
    return loaded;
  }
  static fs::path nano() { return fs::path(HYDRA_FIXTURES) / "qwen3-nano"; }
  static const text::Tokenizer& tokenizer() {
    static const text::Tokenizer loaded = text::Tokenizer::load(nano());
    return loaded;
  }
  static data::Corpora words_only() {
    data::Corpora corpora = data::load_corpora("", "");
    corpora.essay.clear();
    return corpora;
  }
  // The head that retrieval needs most comes first.
  static std::vector<LayerHead> ranking() {
    std::vector<LayerHead> heads = {{4, 0}};
    for (std::int64_t layer = 0; layer < 6; ++layer) {
      for (std::int64_t head = 0; head < 4; ++head) {
        if (LayerHead(layer, head) != heads.front()) {
          heads.emplace_back(layer, head);
        }
      }
    }
    return heads;
  }
  static KnockoutConfig config() {
    KnockoutConfig config;
    config.tasks = {data::NiahTask::single_1};
    config.samples = 6;
    config.counts = {24, 0, 1};
    config.random_orders = 2;
    return config;
  }
  static Knockout measure(dist::Communicator& communicator, const fs::path& work,
                          const KnockoutConfig& asked = config()) {
    static const data::Corpora corpora = words_only();
    return knockout_curves(teacher(), ranking(), asked, 256, corpora, tokenizer(), work, {{"model", "nano"}},
                           communicator);
  }
};

TEST_F(KnockoutTest, OneHeadCarriesRetrieval) {
  const auto solo = dist::make_solo_communicator();
  const test::TempDir dir;
  const Knockout found = measure(*solo, dir.path());
  EXPECT_EQ(found.counts, (std::vector<std::int64_t>{0, 1, 24}));
  ASSERT_EQ(found.curves.size(), 4u);
  for (const KnockoutCurve& curve : found.curves) {
    EXPECT_GE(curve.accuracy[0], 0.8) << curve.name;  // the whole teacher
    EXPECT_EQ(curve.accuracy[2], 0.0) << curve.name;  // no head is left
  }
  EXPECT_LE(found.curves[0].accuracy[1], 0.2);  // without layer 4 head 0
  EXPECT_GE(found.curves[1].accuracy[1], 0.8);  // without the last of the ranking
}

TEST_F(KnockoutTest, RanksShareThePoints) {
  const auto solo = dist::make_solo_communicator();
  const test::TempDir dir;
  const Json expected = to_json(measure(*solo, dir.path() / "one"));
  std::mutex mutex;
  dist::run_thread_ranks(3, [&](dist::Communicator& communicator) {
    const Json found = to_json(measure(communicator, dir.path() / "three"));
    const std::lock_guard lock(mutex);
    EXPECT_EQ(found, expected) << communicator.rank();
  });
}

TEST_F(KnockoutTest, TasksThatDoNotFitAreRefusedWhenNoneIsLeft) {
  const auto solo = dist::make_solo_communicator();
  KnockoutConfig short_context = config();
  short_context.tasks = {data::NiahTask::single_2};  // needs an essay
  const test::TempDir dir;
  EXPECT_THROW(knockout_curves(teacher(), ranking(), short_context, 256, words_only(), tokenizer(), dir.path() / "work",
                               {}, *solo),
               UserError);
  EXPECT_FALSE(fs::exists(dir.path() / "work"));
}

TEST_F(KnockoutTest, GoesOnFromThePointsThatAreThere) {
  const auto solo = dist::make_solo_communicator();
  const test::TempDir dir;
  const Knockout whole = measure(*solo, dir.path());
  const fs::path one = dir.path() / "random-order-seed-0-24.json";
  ASSERT_TRUE(fs::exists(one));
  write_file_atomic(one, "0.25\n");  // a value that no computation gives: it is read
  fs::remove(dir.path() / "score-order-1.json");
  const Knockout again = measure(*solo, dir.path());
  EXPECT_EQ(again.curves[2].accuracy[2], 0.25);
  EXPECT_EQ(again.curves[0].accuracy, whole.curves[0].accuracy);
  KnockoutConfig others = config();
  others.seed = 7;
  try {
    measure(*solo, dir.path(), others);
    FAIL() << "points of other samples were taken";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("samples_sha256"), std::string::npos) << error.what();
  }
}

TEST(Knockout, CountsAreAscendingAndWithinTheModel) {
  EXPECT_EQ(knockout_counts({}, 24), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 6, 8, 12}));
  EXPECT_EQ(knockout_counts({5, 2, 5}, 24), (std::vector<std::int64_t>{2, 5}));
  EXPECT_THROW(knockout_counts({25}, 24), UserError);
}

TEST(Knockout, FilesHoldTheCurves) {
  const test::TempDir dir;
  const Knockout knockout{.heads = 40,
                          .context = 512,
                          .samples = 48,
                          .tasks = {"niah_single_1"},
                          .counts = {0, 1},
                          .curves = {{"score order", {1.0, 0.0625}}, {"reverse order", {1.0, 0.5}}}};
  write_knockout(dir.path(), knockout);
  const std::string table = read_file(dir.path() / "knockout.md");
  EXPECT_NE(table.find("| heads removed | 0 | 1 |"), std::string::npos) << table;
  EXPECT_NE(table.find("| share of heads | 0.0% | 2.5% |"), std::string::npos) << table;
  EXPECT_NE(table.find("| score order | 100.0 | 6.2 |"), std::string::npos) << table;
  EXPECT_EQ(test::xml_problem(read_file(dir.path() / "knockout.svg")), "");
  EXPECT_EQ(read_json_file((dir.path() / "knockout.json").string())["curves"][1]["accuracy"][1], 0.5);
}

}  // namespace
}  // namespace hydra::select
