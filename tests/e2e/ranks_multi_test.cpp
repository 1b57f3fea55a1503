// Several ranks as processes on the CPU, started by `hydrahead launch` and by other launchers' variables: results of
// one rank, ranks that die, signals, and ranks that are not alike.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "hydrahead/base/json.hpp"
#include "hydrahead/checkpoint/retention.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/process.hpp"
#include "tests/support/prose.hpp"

namespace hydra {
namespace {

namespace fs = std::filesystem;

using Variables = std::map<std::string, std::string>;

// What a launcher tells rank `rank` of two.
using Launcher = Variables (*)(int rank);
Variables torchrun(int rank) {
  const std::string number = std::to_string(rank);
  return {{"RANK", number}, {"LOCAL_RANK", number}, {"WORLD_SIZE", "2"}};
}
Variables slurm(int rank) {
  const std::string number = std::to_string(rank);
  return {{"SLURM_PROCID", number}, {"SLURM_LOCALID", number}, {"SLURM_NTASKS", "2"}};
}
Variables openmpi(int rank) {
  const std::string number = std::to_string(rank);
  return {{"OMPI_COMM_WORLD_RANK", number}, {"OMPI_COMM_WORLD_LOCAL_RANK", number}, {"OMPI_COMM_WORLD_SIZE", "2"}};
}

// A config whose text is found from the working directory, so that two ranks can see different texts under one path.
class TwoRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(root() / "text.txt") << test::make_prose(6000, 5);
    write_config("run.yaml", 40);
    write_config("short.yaml", 4);
  }
  void write_config(const std::string& name, int steps) {
    std::ofstream(root() / name) << "teacher: " << HYDRA_FIXTURES << "/qwen3-nano\n"
                                 << "run_dir: run\ndevice: cpu\ncalibration: {tokens: 256, context: 64}\n"
                                 << "data: {sources: {words: {path: /proc/self/cwd/text.txt}}}\n"
                                 << "parallel: {data: 2, shard: gradients, timeout: 3}\n"
                                 << "stages:\n  align: {steps: " << steps << ", context: 32, global_batch: 3, "
                                 << "lr: {peak: 1e-3, final: 1e-4, warmup: 2}}\n"
                                 << "checkpoint: {every: 1000, keep: 2}\neval: {after: []}\nlog: {every: 1}\n";
  }
  const fs::path& root() const { return dir_.path(); }
  fs::path run_dir(const std::string& name = "run") const { return root() / name; }

  test::ProcessOptions process(const Variables& variables = {}) const {
    test::ProcessOptions options;
    options.environment = variables;
    options.environment["XDG_CACHE_HOME"] = (root() / "cache").string();
    options.environment["OMP_WAIT_POLICY"] = "passive";
    options.environment["OMP_NUM_THREADS"] = "1";
    options.directory = root().string();
    options.timeout_seconds = 120;
    return options;
  }
  std::vector<std::string> train(const std::string& run, const std::vector<std::string>& more = {},
                                 const std::string& config = "run.yaml") const {
    std::vector<std::string> arguments{"train", "--config", (root() / config).string(), "--set",
                                       "run_dir=" + run_dir(run).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  test::ProcessResult run(std::vector<std::string> arguments, int ranks) const {
    std::vector<std::string> command{HYDRA_BINARY};
    if (ranks > 1) {
      command.insert(command.end(), {"launch", "-n", std::to_string(ranks), "--"});
    }
    command.insert(command.end(), arguments.begin(), arguments.end());
    return test::run_process(command, process());
  }

  // Two ranks without a launcher of ours.
  struct Rank {
    pid_t pid = 0;
    std::unique_ptr<test::TempDir> scratch = std::make_unique<test::TempDir>();
    test::ProcessResult finish() { return test::finish_process(pid, 60, scratch->path()); }
  };
  std::vector<Rank> start(Launcher launcher, const std::vector<std::string>& first,
                          const std::vector<std::string>& second, const fs::path& second_directory = {},
                          const std::string& second_binary = HYDRA_BINARY) const {
    const int port = test::free_port();
    std::vector<Rank> ranks(2);
    for (int rank = 0; rank < 2; ++rank) {
      Variables variables = launcher(rank);
      variables["MASTER_ADDR"] = "127.0.0.1";
      variables["MASTER_PORT"] = std::to_string(port);
      test::ProcessOptions options = process(variables);
      if (rank == 1 && !second_directory.empty()) {
        options.directory = second_directory.string();
        options.environment["XDG_CACHE_HOME"] = (second_directory / "cache").string();
      }
      std::vector<std::string> command{rank == 0 ? HYDRA_BINARY : second_binary};
      const auto& arguments = rank == 0 ? first : second;
      command.insert(command.end(), arguments.begin(), arguments.end());
      Rank& started = ranks[static_cast<std::size_t>(rank)];
      started.pid = test::start_process(command, options, started.scratch->path());
    }
    return ranks;
  }
  std::vector<Rank> start(Launcher launcher, const std::vector<std::string>& arguments) const {
    return start(launcher, arguments, arguments);
  }
  void wait_for_steps(const std::string& run) const {
    const fs::path metrics = run_dir(run) / "metrics.jsonl";
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!fs::exists(metrics) || fs::file_size(metrics) == 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  static std::vector<double> losses(const fs::path& run) {
    std::vector<double> values;
    std::ifstream file(run / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      values.push_back((*parse_json(line))["loss"].get<double>());
    }
    return values;
  }
  // Of each step, over all ranks.
  static std::vector<std::multiset<std::string>> documents(const fs::path& run, int ranks) {
    std::vector<std::multiset<std::string>> steps;
    for (int rank = 0; rank < ranks; ++rank) {
      std::ifstream file(run / detail::concat("documents.rank", rank, ".jsonl"));
      std::size_t step = 0;
      for (std::string line; std::getline(file, line); ++step) {
        steps.resize(std::max(steps.size(), step + 1));
        for (const Json& document : (*parse_json(line))["documents"]) {
          steps[step].insert(document.get<std::string>());
        }
      }
    }
    return steps;
  }

 private:
  test::TempDir dir_;
};

void expect_in(const std::string& text, const std::string& piece) {
  EXPECT_NE(text.find(piece), std::string::npos) << "expected \"" << piece << "\" in: " << text;
}

TEST_F(TwoRanks, TrainAndEvaluateLikeOne) {
  const auto two = run(train("two", {}, "short.yaml"), 2);
  ASSERT_EQ(two.status, 0) << two.err;
  const auto one = run(train("one", {"--set", "parallel.data=1", "--set", "parallel.shard=none"}, "short.yaml"), 1);
  ASSERT_EQ(one.status, 0) << one.err;
  const std::vector<double> expected = losses(run_dir("one")), found = losses(run_dir("two"));
  ASSERT_EQ(expected.size(), 4u);
  ASSERT_EQ(found.size(), 4u);
  for (std::size_t step = 0; step < 4; ++step) {
    EXPECT_NEAR(found[step], expected[step], 1e-6);
  }
  EXPECT_EQ(documents(run_dir("one"), 1), documents(run_dir("two"), 2));

  for (const int ranks : {1, 2}) {
    const std::string out = (root() / ("niah" + std::to_string(ranks))).string();
    const auto result = run({"eval", "niah", "--model", std::string(HYDRA_FIXTURES) + "/qwen3-nano", "--out", out,
                             "--tasks", "niah_single_1,niah_single_2", "--lengths", "128,256", "--samples", "4",
                             "--batch-tokens", "400", "--haystack", (root() / "text.txt").string(), "--device", "cpu"},
                            ranks);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  EXPECT_EQ(test::slurp(root() / "niah1/summary.json"), test::slurp(root() / "niah2/summary.json"));
}

// No launcher watches these: the other rank has to find out by itself.
TEST_F(TwoRanks, AKilledRankEndsTheOtherWithinTheDeadline) {
  for (const int victim : {1, 0}) {
    const std::string name = "killed" + std::to_string(victim);
    std::vector<Rank> ranks = start(slurm, train(name, {"--set", "stages.align.steps=100000"}));
    wait_for_steps(name);
    ::kill(ranks[static_cast<std::size_t>(victim)].pid, SIGKILL);
    const auto begin = std::chrono::steady_clock::now();
    const test::ProcessResult other = ranks[static_cast<std::size_t>(1 - victim)].finish();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
    EXPECT_EQ(other.status, 1) << other.err;
    ranks[static_cast<std::size_t>(victim)].finish();
    expect_in(other.err, "rank " + std::to_string(1 - victim) + " ");
    expect_in(other.err, "collective ");
    expect_in(other.err,
              victim == 1 ? "rank 1 does not answer since 3 s" : "rank 0, which serves the meeting point, has ended");
  }
}

TEST_F(TwoRanks, LaunchNamesTheRankThatWasKilled) {
  const test::TempDir scratch;
  std::vector<std::string> command{HYDRA_BINARY, "launch", "-n", "2", "--"};
  for (const std::string& argument : train("launched", {"--set", "stages.align.steps=100000"})) {
    command.push_back(argument);
  }
  const pid_t pid = test::start_process(command, process(), scratch.path());
  wait_for_steps("launched");
  std::ifstream children("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  pid_t first = 0, second = 0;
  children >> first >> second;
  ASSERT_GT(second, 0);
  ::kill(second, SIGKILL);
  const test::ProcessResult result = test::finish_process(pid, 60, scratch.path());
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_LT(result.seconds, 15.0);
  expect_in(result.err, "rank 1 failed first: killed by signal 9");
  EXPECT_NE(::kill(first, 0), 0);
}

TEST_F(TwoRanks, ASignalToOneRankStopsBothWithOneCheckpoint) {
  std::vector<Rank> ranks = start(openmpi, train("stopped"));
  wait_for_steps("stopped");
  ::kill(ranks[1].pid, SIGTERM);
  for (Rank& rank : ranks) {
    const test::ProcessResult result = rank.finish();
    EXPECT_EQ(result.status, 75) << result.err;
    expect_in(result.err, "stopped by a signal after step");
  }
  const auto saved = checkpoint::list_checkpoints(run_dir("stopped") / "align");
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(checkpoint::checkpoint_fault(saved[0]), "");
  // One rank goes on with what two have written. What the second noted of later steps does not stay.
  const fs::path notes = run_dir("stopped") / "documents.rank1.jsonl";
  const std::string before = test::slurp(notes);
  std::ofstream(notes, std::ios::app) << R"({"step": 39, "stage": "align", "documents": ["late"]})"
                                      << "\n";
  const auto rest = run(train("stopped", {"--resume", "--set", "parallel.data=1"}), 1);
  EXPECT_EQ(rest.status, 0) << rest.err;
  EXPECT_EQ(losses(run_dir("stopped")).size(), 40u);
  EXPECT_EQ(test::slurp(notes), before);
}

TEST_F(TwoRanks, RanksThatAreNotAlikeAreRefused) {
  const auto refusal = [](std::vector<Rank> ranks) {
    std::string text;
    for (Rank& rank : ranks) {
      const test::ProcessResult result = rank.finish();
      EXPECT_EQ(result.status, 2) << result.err;
      text = result.err;
    }
    return text;
  };
  expect_in(refusal(start(torchrun, train("unlike"), train("unlike", {"--set", "stages.align.lr.peak=2e-3"}))),
            "the config of rank 1 differs from that of rank 0\n  stages.align.lr.peak: 0.002, on rank 0 0.001");

  fs::create_directories(root() / "elsewhere");
  std::ofstream(root() / "elsewhere/text.txt") << test::make_prose(6000, 6);
  expect_in(refusal(start(torchrun, train("unlike"), train("unlike"), root() / "elsewhere")),
            "the text of data.sources, in the rows of stage align, differs between rank 0 and rank 1");

  const fs::path copy = root() / "hydrahead";
  fs::copy_file(HYDRA_BINARY, copy);
  std::ofstream(copy, std::ios::app | std::ios::binary) << 'x';
  expect_in(refusal(start(torchrun, train("unlike"), train("unlike"), {}, copy.string())),
            "the program file differs between rank 0 and rank 1");
  EXPECT_FALSE(fs::exists(run_dir("unlike")));
}

TEST_F(TwoRanks, AMissingRankIsNamedAtTheDeadline) {
  Variables variables = slurm(0);
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(test::free_port());
  std::vector<std::string> command{HYDRA_BINARY};
  for (const std::string& argument : train("alone", {"--set", "parallel.timeout=1"})) {
    command.push_back(argument);
  }
  const test::ProcessResult result = test::run_process(command, process(variables));
  EXPECT_EQ(result.status, 2) << result.err;
  expect_in(result.err, "waited 1 s at 127.0.0.1 port " + variables["MASTER_PORT"] + " for 2 ranks; missing: 1");
}

}  // namespace
}  // namespace hydra
