// `hydrahead train` from the command line on the bundled nano checkpoint: directory rules, signals, SIGKILL at any
// moment, damaged checkpoints; the losses are those of an uninterrupted run, bit for bit.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "hydrahead/base/directory_claim.hpp"
#include "hydrahead/base/json.hpp"
#include "hydrahead/base/random.hpp"
#include "hydrahead/checkpoint/retention.hpp"
#include "tests/support/process.hpp"
#include "tests/support/prose.hpp"

namespace hydra {
namespace {

namespace fs = std::filesystem;

// A config of three short stages with a checkpoint at every step, and its text.
class TrainVerb : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(root() / "text.txt") << test::make_prose(6000, 5);
    const char* stage = "{steps: 4, context: 32, global_batch: 2, lr: {peak: 1e-3, final: 1e-4, warmup: 2}}";
    std::ofstream(root() / "run.yaml")
        << "teacher: " << HYDRA_FIXTURES << "/qwen3-nano\n"
        << "run_dir: run\ndevice: cpu\ncalibration: {tokens: 256, context: 64}\n"
        << "data: {sources: {words: {path: text.txt}}, validation: {path: text.txt, tokens: 64}}\n"
        << "stages:\n  align: " << stage << "\n  distill: " << stage << "\n  long_context: " << stage
        << "\ncheckpoint: {every: 1, keep: 2}\neval: {after: []}\nlog: {every: 1}\n";
  }
  const fs::path& root() const { return dir_.path(); }
  fs::path run_dir(const std::string& name = "run") const { return root() / name; }

  std::vector<std::string> command(const std::vector<std::string>& more, const std::string& run = "run") const {
    std::vector<std::string> arguments{
        HYDRA_BINARY, "train", "--config", (root() / "run.yaml").string(), "--set", "run_dir=" + run_dir(run).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  test::ProcessOptions process() const {
    test::ProcessOptions options;
    options.environment["XDG_CACHE_HOME"] = (root() / "cache").string();
    options.environment["OMP_WAIT_POLICY"] = "passive";  // tests may share the cores
    options.timeout_seconds = 300;
    return options;
  }
  test::ProcessResult train(const std::vector<std::string>& more = {}, const std::string& run = "run") const {
    return test::run_process(command(more, run), process());
  }

  // What a run's files say of each step: losses and norms as written, and the documents read.
  static std::vector<std::string> steps_of(const fs::path& run) {
    std::vector<std::string> steps;
    std::ifstream metrics(run / "metrics.jsonl"), documents(run / "documents.rank0.jsonl");
    std::string line;
    while (std::getline(metrics, line)) {
      const Json record = *parse_json(line);
      const char* key = record.contains("loss") ? "loss" : "validation_loss";
      std::string step = detail::concat(record["step"], ' ', record["stage"], ' ', key, ' ', record[key]);
      if (record.contains("grad_norm")) {
        step += detail::concat(' ', record["grad_norm"], ' ', record["lr"]);
      }
      steps.push_back(detail::concat(record["step"], " ", record["stage"], " ", key, " ", record[key], " ",
                                     record.value("grad_norm", Json()), " ", record.value("lr", Json())));
    }
    while (std::getline(documents, line)) {
      steps.push_back(line);
    }
    return steps;
  }
  static void expect_same_result(const fs::path& a, const fs::path& b) {
    EXPECT_EQ(steps_of(a), steps_of(b));
    for (const char* stage : {"align", "distill", "long_context"}) {
      const fs::path file = fs::path(stage) / "final" / "model.safetensors";
      EXPECT_EQ(test::slurp(a / file), test::slurp(b / file)) << stage;
    }
  }

 private:
  test::TempDir dir_;
};

TEST_F(TrainVerb, DirectoryRulesAndDryRun) {
  const test::ProcessResult dry = train({"--dry-run"});
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_NE(dry.out.find("stage distill: 4 steps of 2 rows x 32 tokens"), std::string::npos) << dry.out;
  EXPECT_FALSE(fs::exists(run_dir()));

  EXPECT_EQ(train({"--stage", "distill"}).status, 2);  // align comes first
  fs::remove_all(run_dir());
  const test::ProcessResult first = train({"--stage", "align"});
  EXPECT_EQ(first.status, 0) << first.err;
  for (const char* name :
       {"config.resolved.yaml", "converted/heads.yaml", "align/final/config.json", "align/tensors.json",
        "align/step-0000000004/manifest.json", "metrics.jsonl", "metrics.prom", "report.json", "report.html"}) {
    EXPECT_TRUE(fs::exists(run_dir() / name)) << name;
  }
  EXPECT_FALSE(fs::exists(run_dir() / "align/step-0000000003"));  // the finished stage keeps its last one

  const test::ProcessResult used = train();
  EXPECT_EQ(used.status, 2);
  EXPECT_NE(used.err.find("--resume"), std::string::npos) << used.err;
  EXPECT_EQ(train({"--stage", "align"}).status, 2);
  const test::ProcessResult changed = train({"--resume", "--set", "stages.align.lr.peak=2e-3"});
  EXPECT_EQ(changed.status, 2);
  EXPECT_NE(changed.err.find("stages.align.lr.peak"), std::string::npos) << changed.err;

  // The next stage as a command of its own, with settings that may still change; then the rest.
  {
    const DirectoryClaim claim(run_dir());  // as another process that trains there
    const test::ProcessResult taken = train({"--stage", "distill", "--set", "stages.distill.ce_weight=0.2"});
    EXPECT_EQ(taken.status, 2);
    EXPECT_NE(taken.err.find("run: another process"), std::string::npos) << taken.err;
  }
  const test::ProcessResult second = train({"--stage", "distill", "--set", "stages.distill.ce_weight=0.2"});
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_NE(second.err.find("fresh optimizer"), std::string::npos) << second.err;
  const test::ProcessResult rest = train({"--resume", "--set", "stages.distill.ce_weight=0.2"});
  EXPECT_EQ(rest.status, 0) << rest.err;
  EXPECT_TRUE(fs::exists(run_dir() / "long_context/final/model.safetensors"));
}

TEST_F(TrainVerb, ReportShowsAStateOfAnotherRun) {
  const std::vector<std::string> evaluation = {
      "--stage", "align", "--set", "eval.ppl.tokens=64", "--set", "eval.ppl.context=32", "--set", "eval.after=[align]"};
  std::vector<std::string> beside = evaluation;
  beside.insert(beside.end(), {"--set", "eval.beside.other.run=" + run_dir("other").string()});
  const auto refused = train(beside);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("eval.beside.other"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(run_dir()));

  std::vector<std::string> other = evaluation;
  other.insert(other.end(), {"--set", "eval.teacher=false", "--set", "heads.fa_ratio=0.5"});
  ASSERT_EQ(train(other, "other").status, 0);
  EXPECT_FALSE(fs::exists(run_dir("other") / "eval/teacher"));
  const auto result = train(beside);
  ASSERT_EQ(result.status, 0) << result.err;
  const Json states = read_json_file((run_dir() / "report.json").string())["states"];
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0]["name"], "teacher");
  EXPECT_EQ(states[1]["name"], "align");
  EXPECT_EQ(states[2]["name"], "other");
  const Json theirs = read_json_file((run_dir("other") / "report.json").string())["states"][0];
  EXPECT_EQ(states[2]["perplexity"], theirs["perplexity"]);
  EXPECT_NE(states[2]["kv_bytes_per_token"], states[1]["kv_bytes_per_token"]);
}

TEST_F(TrainVerb, KilledAtAnyMomentItContinuesExactly) {
  const test::ProcessResult whole = train({"--resume"}, "whole");  // starts where there is nothing
  ASSERT_EQ(whole.status, 0) << whole.err;
  RandomStream random(6, 0);
  const test::TempDir scratch;
  int interrupted = 0;
  test::ProcessResult last;
  for (int attempt = 0; attempt < 60; ++attempt) {
    const pid_t pid = test::start_process(command({"--resume"}, "killed"), process(), scratch.path());
    // The first kills come early, later ones leave time for some steps.
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300 + random.below(attempt < 3 ? 500 : 2500)));
      if (attempt < 8) {
        ::kill(pid, SIGKILL);
      }
    });
    last = test::finish_process(pid, 300, scratch.path());
    killer.join();
    if (last.status == 0) {
      break;
    }
    ASSERT_EQ(last.status, 128 + SIGKILL) << last.err;
    ++interrupted;
  }
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_GT(interrupted, 2);
  expect_same_result(run_dir("whole"), run_dir("killed"));
  for (const auto& entry : fs::recursive_directory_iterator(run_dir("killed"))) {
    EXPECT_FALSE(entry.path().string().ends_with(".tmp")) << entry.path();
  }
}

TEST_F(TrainVerb, ASignalSavesOnceAndADamagedCheckpointIsSkipped) {
  ASSERT_EQ(train({}, "whole").status, 0);
  const test::TempDir scratch;
  const pid_t pid =
      test::start_process(command({"--set", "checkpoint.every=1000"}, "stopped"), process(), scratch.path());
  while (!fs::exists(run_dir("stopped") / "metrics.jsonl") ||
         fs::file_size(run_dir("stopped") / "metrics.jsonl") == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_EQ(::kill(pid, 0), 0);
  }
  ::kill(pid, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(pid, SIGTERM);  // changes nothing
  const test::ProcessResult stopped = test::finish_process(pid, 100, scratch.path());
  ASSERT_EQ(stopped.status, 75) << stopped.err;
  const auto saved = checkpoint::list_checkpoints(run_dir("stopped") / "align");
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(checkpoint::checkpoint_fault(saved[0]), "");

  // Go on with a checkpoint every step, stop again in the second stage, and spoil the newest one.
  const pid_t second = test::start_process(command({"--resume"}, "stopped"), process(), scratch.path());
  const fs::path distill = run_dir("stopped") / "distill";
  while (checkpoint::list_checkpoints(distill).size() < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_EQ(::kill(second, 0), 0);
  }
  ::kill(second, SIGKILL);
  test::finish_process(second, 100, scratch.path());
  const fs::path newest = checkpoint::list_checkpoints(distill).back();
  const std::string optimizer = "optimizer-00001-of-00001.safetensors";
  const fs::path largest = newest / (fs::exists(newest / optimizer) ? optimizer : "state.json");
  fs::resize_file(largest, fs::file_size(largest) - 1);

  const test::ProcessResult named = train({"--resume", newest.string()}, "stopped");
  EXPECT_EQ(named.status, 2) << named.err;
  EXPECT_NE(named.err.find(newest.filename().string()), std::string::npos) << named.err;
  const test::ProcessResult resumed = train({"--resume"}, "stopped");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("skipped " + newest.string()), std::string::npos) << resumed.err;
  expect_same_result(run_dir("whole"), run_dir("stopped"));
}

TEST_F(TrainVerb, WithoutACompleteCheckpointItDoesNotStartAnew) {
  ASSERT_EQ(train({"--stage", "align"}).status, 0);
  fs::remove(run_dir() / "align/step-0000000004/manifest.json");
  const test::ProcessResult result = train({"--resume"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("no checkpoint of this stage is complete"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace hydra
