// The eval verb as a user runs it: kills at any moment, signals, another model, refusals, an untrained model.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "hydrahead/base/directory_claim.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/json.hpp"
#include "tests/support/hybrid_nano.hpp"
#include "tests/support/process.hpp"
#include "tests/support/prose.hpp"
#include "tests/support/small_tokenizer.hpp"
#include "tests/support/tiny_model.hpp"

namespace hydra {
namespace {

class EvalVerb : public ::testing::Test {
 protected:
  void SetUp() override { std::ofstream(root() / "essay.txt") << test::make_prose(5000, 8); }
  const fs::path& root() const { return dir_.path(); }
  fs::path out(const std::string& name) const { return root() / name; }

  std::vector<std::string> niah(const std::string& name, const std::vector<std::string>& more = {},
                                const std::string& model = nano()) const {
    std::vector<std::string> arguments{HYDRA_BINARY,
                                       "eval",
                                       "niah",
                                       "--model",
                                       model,
                                       "--out",
                                       out(name).string(),
                                       "--device",
                                       "cpu",
                                       "--haystack",
                                       (root() / "essay.txt").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static std::string nano() { return (fs::path(HYDRA_FIXTURES) / "qwen3-nano").string(); }

  // 3 lengths x 5 depths x 2 samples of two tasks, in small batches.
  std::vector<std::string> grid(const std::string& name, const std::string& model = nano()) const {
    return niah(name,
                {"--tasks", "niah_single_1,niah_single_2", "--lengths", "256,128,192", "--depths", "0,25,50,75,100",
                 "--samples", "10", "--batch-tokens", "512"},
                model);
  }
  static std::vector<std::string> lines(const fs::path& path) {
    std::vector<std::string> result;
    std::istringstream text(fs::exists(path) ? read_file(path) : "");
    for (std::string line; std::getline(text, line);) {
      result.push_back(line);
    }
    return result;
  }
  // Ends the process by a signal once this many samples are on disk.
  test::ProcessResult ended_after(std::size_t samples, int signal, const std::vector<std::string>& command,
                                  const fs::path& directory) const {
    const test::TempDir scratch;
    const pid_t pid = test::start_process(command, {}, scratch.path());
    for (int i = 0; i < 60000 && lines(directory / "samples.jsonl").size() < samples + 1; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ::kill(pid, signal);
    return test::finish_process(pid, 300, scratch.path());
  }
  static std::map<std::string, std::string> results(const fs::path& directory) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      if (name != "run.json" && name != "samples.jsonl") {
        files[name] = read_file(entry.path());
      }
    }
    return files;
  }
  // Records without their times, by id; fails on a sample that stands twice.
  static std::map<std::string, Json> records(const fs::path& directory) {
    std::map<std::string, Json> result;
    for (const std::string& line : lines(directory / "samples.jsonl")) {
      Json json = *parse_json(line);
      if (json.contains("id")) {
        json.erase("ms");
        const std::string id = json["id"];
        EXPECT_TRUE(result.emplace(id, json).second) << id;
      }
    }
    return result;
  }

 private:
  test::TempDir dir_;
};

TEST_F(EvalVerb, KilledAnywhereAndContinuedEqualsAWholeRun) {
  const test::ProcessResult whole = test::run_process(grid("whole"));
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_NE(whole.out.find("| niah_single_2 |"), std::string::npos);
  ASSERT_EQ(records(out("whole")).size(), 60u);
  for (const std::size_t samples : {10u, 25u, 40u}) {
    EXPECT_EQ(ended_after(samples, SIGKILL, grid("parts"), out("parts")).status, 128 + SIGKILL);
    EXPECT_GE(lines(out("parts") / "samples.jsonl").size(), samples + 1);
  }
  // The last record cut in half.
  const std::string text = read_file(out("parts") / "samples.jsonl");
  const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
  std::ofstream(out("parts") / "samples.jsonl", std::ios::trunc) << text.substr(0, (last + text.size()) / 2);
  const test::ProcessResult rest = test::run_process(grid("parts"));
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_EQ(results(out("whole")), results(out("parts")));
  EXPECT_EQ(records(out("whole")), records(out("parts")));
  EXPECT_EQ(whole.out.substr(0, whole.out.find("report:")), rest.out.substr(0, rest.out.find("report:")));
}

TEST_F(EvalVerb, ATermSignalLeavesAResumableDirectory) {
  const test::ProcessResult stopped = ended_after(4, SIGTERM, grid("out"), out("out"));
  EXPECT_EQ(stopped.status, 75) << stopped.err;
  EXPECT_FALSE(fs::exists(out("out") / "summary.json"));
  EXPECT_EQ(test::run_process(grid("out")).status, 0);
  EXPECT_EQ(records(out("out")).size(), 60u);
}

TEST_F(EvalVerb, AnotherModelOrTokenizerOrHaystackIsRefused) {
  fs::copy(nano(), root() / "model", fs::copy_options::recursive);
  const std::string model = (root() / "model").string();
  ASSERT_EQ(test::run_process(grid("out", model)).status, 0);
  const auto before = results(out("out"));
  test::write_hybrid_nano(root() / "other");
  fs::copy(fs::path(nano()) / "tokenizer.json", root() / "other/tokenizer.json");
  const test::ProcessResult other = test::run_process(grid("out", (root() / "other").string()));
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("model_sha256"), std::string::npos) << other.err;
  std::ofstream(root() / "essay.txt", std::ios::app) << "One more sentence. ";
  const test::ProcessResult essay = test::run_process(grid("out", model));
  EXPECT_EQ(essay.status, 2);
  EXPECT_NE(essay.err.find("essay_sha256"), std::string::npos) << essay.err;
  EXPECT_EQ(before, results(out("out")));
}

TEST_F(EvalVerb, RefusalsNameTheItemAndLeaveNothing) {
  const auto refused = [&](const std::vector<std::string>& command, const std::string& part) {
    const test::ProcessResult result = test::run_process(command);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_NE((result.err + result.out).find(part), std::string::npos) << part << "\n" << result.err;
  };
  refused(niah("x", {"--tasks", "niah_multikey_3", "--lengths", "128"}), "niah_multikey_3 at length 128 does not fit");
  refused(niah("x", {"--tasks", "niah_single_9"}), "niah_single_1");
  refused(niah("x", {"--lengths", "512", "--samples", "3,4"}), "samples");
  refused(niah("x", {"--lengths", "512,512"}), "512");
  refused(niah("x", {}, (root() / "nothing").string()), "nothing");
  refused({HYDRA_BINARY, "eval", "ruler", "--model", nano()}, "eval niah");
  refused({HYDRA_BINARY, "eval", "choice"}, "eval ppl");
  refused({HYDRA_BINARY, "eval", "ppl", "--model", nano(), "--out", out("x").string()}, "--data");
  refused({HYDRA_BINARY, "eval", "ppl", "--model", nano(), "--out", out("x").string(), "--data",
           (root() / "essay.txt").string(), "--tokens", "200", "--context", "64", "--log-scale-a", "300"},
          "teacher");
  EXPECT_FALSE(fs::exists(out("x")));
  // Weights are read when the records' file is there already.
  fs::copy(nano(), root() / "model", fs::copy_options::recursive);
  std::string weights = test::read_bytes(root() / "model/model.safetensors");
  weights.replace(weights.size() - 2, 2, "\xc0\x7f");  // the last value, bf16: not a number
  fs::remove(root() / "model/model.safetensors");
  test::write_bytes(root() / "model/model.safetensors", weights);
  const std::vector<std::string> small = {"--tasks", "niah_single_1", "--lengths", "256", "--samples", "1"};
  refused(niah("x", small, (root() / "model").string()), "not finite");
  EXPECT_FALSE(fs::exists(out("x")));
  refused(niah("essay.txt/x", small), "essay.txt/x");
  refused(niah("essay.txt", small), "essay.txt");
  const DirectoryClaim claim(out("taken"));  // as another process that writes there
  refused(niah("taken", small), "taken: another process");
  refused({HYDRA_BINARY, "eval", "ppl", "--model", nano(), "--out", out("taken").string(), "--data",
           (root() / "essay.txt").string(), "--tokens", "200", "--context", "64"},
          "taken: another process");
}

// Scores near zero are plotted as zeros; the answers are noise of an untrained model.
TEST_F(EvalVerb, AnUntrainedModelScoresZeroAndEveryFileIsValid) {
  const Json config = test::tiny_config();
  test::save_tiny(root() / "untrained", config, test::tiny_weights(config));
  std::ofstream(root() / "untrained/tokenizer.json") << test::small_tokenizer().dump();
  const test::ProcessResult result = test::run_process(
      niah("out", {"--tasks", "niah_single_1,niah_single_2", "--lengths", "512,768", "--samples", "2"},
           (root() / "untrained").string()));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json summary = read_json_file((out("out") / "summary.json").string());
  for (const Json& cell : summary["cells"]) {
    EXPECT_EQ(cell["score"], 0);
    EXPECT_EQ(cell["samples"], 2);
  }
  EXPECT_NE(read_file(out("out") / "tasks.svg").find("#b2182b"), std::string::npos);
}

TEST_F(EvalVerb, PerplexityByPositionWithASweep) {
  test::write_hybrid_nano(root() / "hybrid");
  fs::copy(fs::path(nano()) / "tokenizer.json", root() / "hybrid/tokenizer.json");
  const std::vector<std::string> command{HYDRA_BINARY,
                                         "eval",
                                         "ppl",
                                         "--model",
                                         (root() / "hybrid").string(),
                                         "--out",
                                         out("ppl").string(),
                                         "--data",
                                         (root() / "essay.txt").string(),
                                         "--tokens",
                                         "1024",
                                         "--context",
                                         "256",
                                         "--chunk",
                                         "100",
                                         "--log-scale-a",
                                         "300,600",
                                         "--device",
                                         "cpu"};
  test::ProcessOptions options;
  options.environment["XDG_CACHE_HOME"] = (root() / "cache").string();
  const test::ProcessResult first = test::run_process(command, options);
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.out.find("| position 128-256 |"), std::string::npos) << first.out;
  const Json json = read_json_file((out("ppl") / "ppl.json").string());
  ASSERT_EQ(json["results"].size(), 3u);
  EXPECT_GT(json["results"][0]["tokens"], 1000);
  EXPECT_TRUE(json["best_log_scale_a"] == 300 || json["best_log_scale_a"] == 600);
  EXPECT_EQ(test::run_process(command, options).status, 0);  // known already
}

}  // namespace
}  // namespace hydra
