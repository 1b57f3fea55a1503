// Local ranks: their environment, the first failure, signals, and that no process is left over.

#include "hydrahead/dist/local_launch.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "tests/support/temp_dir.hpp"

namespace {

using hydra::dist::LocalLaunch;
using hydra::dist::run_local_ranks;

LocalLaunch shell(int ranks, const std::string& script, double grace_seconds = 0.3) {
  LocalLaunch launch;
  launch.ranks = ranks;
  launch.command = {"/bin/sh", "-c", script};
  launch.grace_seconds = grace_seconds;
  return launch;
}

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool alive(const std::filesystem::path& pid_file) { return ::kill(std::stoi(hydra::read_file(pid_file)), 0) == 0; }

TEST(LocalLaunch, RanksGetTorchrunsVariables) {
  const hydra::test::TempDir folder;
  const std::string out = folder.path().string();
  ASSERT_EQ(run_local_ranks(shell(3, "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR > " + out +
                                         "/$RANK; echo $MASTER_PORT > " + out + "/port$RANK")),
            0);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string number = std::to_string(rank);
    EXPECT_EQ(hydra::read_file(folder.path() / number), number + " " + number + " 3 3 127.0.0.1\n");
    EXPECT_EQ(hydra::read_file(folder.path() / ("port" + number)), hydra::read_file(folder.path() / "port0"));
  }
  EXPECT_GT(std::stoi(hydra::read_file(folder.path() / "port0")), 1023);
}

TEST(LocalLaunch, TheFirstFailureEndsTheJobAndIsNamed) {
  const hydra::test::TempDir folder;
  const std::string script = "echo $$ > " + folder.path().string() + "/$RANK; [ $RANK = 1 ] && exit 2; sleep 60 & wait";
  testing::internal::CaptureStderr();
  int status = 0;
  EXPECT_LT(seconds_of([&] { status = run_local_ranks(shell(3, script)); }), 10);
  EXPECT_EQ(status, 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("rank 1 failed first: exit status 2"), std::string::npos);
  EXPECT_FALSE(alive(folder.path() / "0"));
  EXPECT_FALSE(alive(folder.path() / "2"));
}

TEST(LocalLaunch, ARankKilledByASignalIsNamed) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_local_ranks(shell(2, "[ $RANK = 0 ] && kill -9 $$; sleep 60")), 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("rank 0 failed first: killed by signal 9"), std::string::npos);
}

TEST(LocalLaunch, OtherRanksMayEndByThemselves) {
  const hydra::test::TempDir folder;
  const std::string out = folder.path().string();
  EXPECT_EQ(run_local_ranks(shell(2, "[ $RANK = 0 ] && exit 1; sleep 0.2; echo said > " + out + "/last; exit 1", 20)),
            1);
  EXPECT_EQ(hydra::read_file(folder.path() / "last"), "said\n");
}

TEST(LocalLaunch, RanksThatSavedAndStopped) {
  EXPECT_EQ(run_local_ranks(shell(2, "exit 75")), 75);
  EXPECT_EQ(run_local_ranks(shell(2, "[ $RANK = 0 ] && exit 75; exit 0")), 75);
  EXPECT_EQ(run_local_ranks(shell(2, "[ $RANK = 0 ] && exit 75; exit 1")), 1);
}

TEST(LocalLaunch, SignalsReachEveryRank) {
  const hydra::test::TempDir folder;
  const std::string out = folder.path().string();
  const std::string script = "trap 'echo TERM > " + out + "/got$RANK; exit 75' TERM; echo > " + out +
                             "/ready$RANK; while :; do sleep 0.05; done";
  const pid_t launcher = ::fork();
  ASSERT_GE(launcher, 0);
  if (launcher == 0) {
    ::_exit(run_local_ranks(shell(2, script)));
  }
  for (int rank = 0; rank < 2; ++rank) {
    while (!std::filesystem::exists(folder.path() / ("ready" + std::to_string(rank)))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ASSERT_EQ(::kill(launcher, SIGTERM), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(launcher, &status, 0), launcher);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 75);
  EXPECT_EQ(hydra::read_file(folder.path() / "got0"), "TERM\n");
  EXPECT_EQ(hydra::read_file(folder.path() / "got1"), "TERM\n");
}

TEST(LocalLaunch, Refusals) {
  EXPECT_THROW(run_local_ranks(shell(0, "exit 0")), hydra::UserError);
  EXPECT_THROW(run_local_ranks({}), hydra::UserError);
  LocalLaunch missing;
  missing.command = {"/no/such/program"};
  EXPECT_THROW(run_local_ranks(missing), hydra::UserError);
}

}  // namespace
