// The select verb as a user runs it: what it writes, plans from its scores, a stop by a signal, ranks, refusals.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "hydrahead/base/files.hpp"
#include "hydrahead/base/json.hpp"
#include "tests/support/hybrid_nano.hpp"
#include "tests/support/process.hpp"

namespace hydra {
namespace {

using Arguments = std::vector<std::string>;

class SelectVerb : public ::testing::Test {
 protected:
  fs::path out(const std::string& name) const { return dir_.path() / name; }
  static std::string nano() { return (fs::path(HYDRA_FIXTURES) / "qwen3-nano").string(); }

  // Two probes without an essay, short and few.
  Arguments select(const std::string& name, const Arguments& more = {}, const std::string& model = nano()) const {
    Arguments words{HYDRA_BINARY, "select", "--model", model, "--out", out(name).string(), "--device", "cpu"};
    for (const char* setting : {"select.probes=[niah_single_1, niah_multikey_2]", "select.context=256",
                                "select.general=none", "select.pairs=3"}) {
      words.insert(words.end(), {"--set", setting});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static void expect_refused(const test::ProcessResult& result, const Arguments& pieces) {
    EXPECT_EQ(result.status, 2) << result.err;
    for (const std::string& piece : pieces) {
      EXPECT_NE(result.err.find(piece), std::string::npos) << piece << "\n" << result.err;
    }
  }

  // Waits until `there()`, at most a minute.
  template <class There>
  static bool wait_for(const There& there) {
    for (int i = 0; i < 30000 && !there(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return there();
  }

  const test::TempDir dir_;
};

TEST_F(SelectVerb, WritesScoresPlanAndReportAndFindsTheRetrievalHead) {
  const auto result =
      test::run_process(select("s", {"--set", "heads.rule=global_interp", "--set", "heads.fa_ratio=0.042"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("| 1 | 4 | 0 |"), std::string::npos) << result.out;
  EXPECT_NE(read_file(out("s") / "heads.yaml").find("heads: [[], [], [], [], [0], []]"), std::string::npos);
  for (const char* name : {"scores.json", "scores.md", "report.html"}) {
    EXPECT_TRUE(fs::exists(out("s") / name)) << name;
  }
  EXPECT_FALSE(fs::exists(out("s") / "pairs"));
  const Json scores = read_json_file((out("s") / "scores.json").string());
  EXPECT_EQ(scores["scores"][4][0]["score"].get<double>(), 1.0);

  // Another plan from the same scores, and a conversion that makes its own.
  ASSERT_EQ(test::run_process(select("t", {"--scores", (out("s") / "scores.json").string(), "--set",
                                           "heads.rule=layer_interp", "--set", "heads.fa_ratio=0.5"}))
                .status,
            0);
  EXPECT_EQ(read_json_file((out("t") / "scores.json").string())["scores"], scores["scores"]);
  std::ofstream(out("ids.jsonl")) << "[1, 2, 3, 4, 5, 6, 7, 8]\n";
  const auto converted = test::run_process({HYDRA_BINARY, "convert", "--model", nano(), "--out", out("hybrid").string(),
                                            "--calibration-ids", out("ids.jsonl").string(), "--set", "device=cpu",
                                            "--set", "heads.rule=global_interp", "--set", "heads.fa_ratio=0.042",
                                            "--set", "heads.scores=" + (out("s") / "scores.json").string()});
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_EQ(read_json_file((out("hybrid") / "config.json").string())["fa_heads"].dump(), "[[],[],[],[],[0],[]]");
}

TEST_F(SelectVerb, StoppedSelectionGoesOnToTheSameBytes) {
  const Arguments more{"--set", "select.pairs=12"};
  ASSERT_EQ(test::run_process(select("whole", more)).status, 0);
  const test::TempDir scratch;
  const pid_t pid = test::start_process(select("stopped", more), {}, scratch.path());
  const fs::path pairs = out("stopped") / "pairs";
  ASSERT_TRUE(wait_for([&] { return fs::exists(pairs / "niah_single_1-256-1.safetensors"); }));
  // Nobody else writes there meanwhile.
  expect_refused(test::run_process(select("stopped", more)), {"stopped", "another process"});
  ::kill(pid, SIGTERM);
  EXPECT_EQ(test::finish_process(pid, 120, scratch.path()).status, 75);
  ASSERT_TRUE(fs::exists(pairs));
  EXPECT_FALSE(fs::exists(out("stopped") / "scores.json"));
  expect_refused(test::run_process(select("stopped", {"--set", "select.pairs=12", "--set", "select.metric=prob"})),
                 {"settings.json", "metric", "logit_diff", "prob"});
  // Its work is not given up for another plan.
  expect_refused(test::run_process(select("stopped", {"--scores", (out("whole") / "scores.json").string()})),
                 {"stopped", "expected a new or empty directory"});
  ASSERT_TRUE(fs::exists(pairs));
  ASSERT_EQ(test::run_process(select("stopped", more)).status, 0);
  for (const char* name : {"scores.json", "heads.yaml", "scores.md", "report.html", "effects.csv"}) {
    EXPECT_EQ(read_file(out("stopped") / name), read_file(out("whole") / name)) << name;
  }
}

// A knockout curve of scores that are there takes as long as all its points: they are kept as well.
TEST_F(SelectVerb, StoppedCheckOfScoresGoesOnToTheSameBytes) {
  ASSERT_EQ(test::run_process(select("scored")).status, 0);
  const Arguments more{
      "--scores", (out("scored") / "scores.json").string(), "--knockout", "--set", "select.knockout.samples=6",
      "--set",    "select.knockout.tasks=[niah_single_1]"};
  ASSERT_EQ(test::run_process(select("whole", more)).status, 0);
  const test::TempDir scratch;
  const pid_t pid = test::start_process(select("stopped", more), {}, scratch.path());
  const fs::path points = out("stopped") / "knockout-points";
  ASSERT_TRUE(wait_for([&] { return fs::exists(points / "score-order-1.json"); }));
  ::kill(pid, SIGTERM);
  EXPECT_EQ(test::finish_process(pid, 120, scratch.path()).status, 75);
  ASSERT_TRUE(fs::exists(points / "score-order-1.json"));
  expect_refused(test::run_process(select("stopped")), {"stopped", "from --scores", "expected the same command"});
  ASSERT_EQ(test::run_process(select("stopped", more)).status, 0);
  for (const char* name : {"knockout.json", "knockout.md", "knockout.svg", "heads.yaml", "scores.json"}) {
    EXPECT_EQ(read_file(out("stopped") / name), read_file(out("whole") / name)) << name;
  }
  EXPECT_FALSE(fs::exists(points));
}

// From the first instruction of main on: before, a signal is a kill.
TEST_F(SelectVerb, ASignalDuringTheStartIsAStop) {
  const test::TempDir scratch;
  const pid_t pid = test::start_process(select("early"), {}, scratch.path());
  const auto catches_sigterm = [&] {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigCgt:")) {
        return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
      }
    }
    return false;
  };
  ASSERT_TRUE(wait_for(catches_sigterm));
  ::kill(pid, SIGTERM);
  EXPECT_EQ(test::finish_process(pid, 120, scratch.path()).status, 75);
  EXPECT_EQ(test::run_process(select("early")).status, 0);
}

// With one thread each: sums of products on a CPU depend on the number of threads.
TEST_F(SelectVerb, TwoRanksGiveTheBytesOfOne) {
  test::ProcessOptions one_thread;
  one_thread.environment["OMP_NUM_THREADS"] = "1";
  ASSERT_EQ(test::run_process(select("one"), one_thread).status, 0);
  Arguments ranks{HYDRA_BINARY, "launch", "-n", "2", "--"};
  const Arguments verb = select("two", {"--set", "parallel.data=2"});
  ranks.insert(ranks.end(), verb.begin() + 1, verb.end());
  const auto result = test::run_process(ranks, one_thread);
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* name : {"scores.json", "heads.yaml", "report.html", "effects.csv"}) {
    EXPECT_EQ(read_file(out("two") / name), read_file(out("one") / name)) << name;
  }
}

TEST_F(SelectVerb, ChecksTheRankingAndAnalysesIfAsked) {
  const auto result =
      test::run_process(select("k", {"--knockout", "--analyse", "--set", "select.knockout.samples=4", "--set",
                                     "select.knockout.tasks=[niah_single_1]", "--set", "select.knockout.counts=[0, 1]",
                                     "--set", "select.knockout.random_orders=1"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("| score order | 100.0 | 0.0 |"), std::string::npos) << result.out;
  for (const char* name : {"knockout.json", "knockout.svg", "analysis.html"}) {
    EXPECT_TRUE(fs::exists(out("k") / name)) << name;
  }
}

TEST_F(SelectVerb, WrongRequestsAreRefusedAndLeaveNothing) {
  test::write_hybrid_nano(out("hybrid"));
  expect_refused(test::run_process(select("a", {}, out("hybrid").string())), {"hybrid", "expected a teacher"});
  expect_refused(test::run_process(select("a", {"--set", "heads.rule=global_interp_c", "--set", "heads.fa_ratio=0.1"})),
                 {"heads.fa_ratio", "global_interp_c", "6 layers"});
  expect_refused(test::run_process(select("a", {"--scores", out("none.json").string()})), {"none.json"});
  std::ofstream(out("rows.jsonl")) << R"({"clean": "x", "corrupt": "x", "answer+": " a", "answer-": " b"})"
                                   << "\n";
  expect_refused(test::run_process(select("a", {"--set", "select.general_file=" + out("rows.jsonl").string()})),
                 {"rows.jsonl:1"});
  expect_refused(test::run_process(select("a", {"--set", "select.min_margin=1000"})), {"select.min_margin"});
  expect_refused(test::run_process(select("a", {"--set", "select.weights={single: 0, multi: 0}"})),
                 {"select.weights", "expected one above 0"});
  expect_refused(test::run_process(select("a", {"--set", "select.sender_paths=[]"})), {"select.sender_paths", "empty"});
  expect_refused(test::run_process(select("a", {"--knockout", "--set", "select.knockout.counts=[25]"})),
                 {"select.knockout.counts", "24 heads"});
  // A tokenizer of a larger vocabulary than the model's.
  fs::copy(fs::path(HYDRA_FIXTURES) / "qwen3-micro-untied", out("micro"));
  fs::copy(fs::path(nano()) / "tokenizer.json", out("micro") / "tokenizer.json");
  expect_refused(test::run_process(select("a", {}, out("micro").string())), {"tokenizer.json", "vocabulary size 517"});
  EXPECT_FALSE(fs::exists(out("a")));
  fs::create_directories(out("used"));
  std::ofstream(out("used") / "file") << "x";
  expect_refused(test::run_process(select("used")), {"used", "expected a new or empty directory"});
  expect_refused(test::run_process(select("used/file/out")), {"used/file/out", "cannot be made a directory"});
}

}  // namespace
}  // namespace hydra
