// Checkpoints: complete or absent whatever kills the process, damage is found and named, retention never removes the
// last good one.

#include "hydrahead/checkpoint/checkpoint.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <limits>
#include <thread>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/random.hpp"
#include "hydrahead/checkpoint/retention.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::checkpoint {
namespace {

using test::refusal;

const std::string kOptimizer = "optimizer-00001-of-00001.safetensors";

RunState state_at(std::int64_t step) {
  RunState state;
  state.stage = "align";
  state.step = step;
  state.total_steps = 1000;
  state.run_step = step;
  state.next_row = 32 * step;
  state.config_sha256 = "c0ffee";
  state.trained = Json::array({"a"});
  state.frozen = Json::array();
  return state;
}

// Weights and moments that hold the step's number.
void write_step(const fs::path& root, std::int64_t step, std::int64_t elements = 1000) {
  const at::Tensor values = at::full({elements}, static_cast<float>(step));
  const auto write_model = [&](const fs::path& dir) {
    fs::create_directories(dir);
    io::write_safetensors(dir / "model.safetensors", {{"w", values}});
  };
  write_checkpoint(root, state_at(step), write_model,
                   {{"w.exp_avg", 0, values}, {"step", 0, at::full({1}, static_cast<float>(step))}},
                   *dist::make_solo_communicator());
}

void append_byte(const fs::path& file) { std::ofstream(file, std::ios::app | std::ios::binary) << 'x'; }

TEST(Checkpoint, RoundTrip) {
  const test::TempDir root;
  write_step(root.path(), 500);
  EXPECT_EQ(list_checkpoints(root.path()), std::vector{root.path() / "step-0000000500"});
  const Checkpoint loaded = open_checkpoint(root.path() / "step-0000000500");
  EXPECT_EQ(loaded.state.stage, "align");
  EXPECT_EQ(loaded.state.step, 500);
  EXPECT_EQ(loaded.state.next_row, 16000);
  EXPECT_EQ(loaded.state.config_sha256, "c0ffee");
  EXPECT_FALSE(loaded.state.stage_done());
  EXPECT_TRUE(at::equal(loaded.optimizer().read("w.exp_avg", 0, 1000), at::full({1000}, 500.0)));
  EXPECT_EQ(loaded.optimizer().read("step", 0, 1).item<float>(), 500.0f);
  EXPECT_TRUE(fs::exists(loaded.model_dir() / "model.safetensors"));
}

// Three ranks write slices of one tensor; any range is read back, and a missing part is damage.
TEST(Checkpoint, RanksWriteTheirParts) {
  const test::TempDir root;
  dist::run_thread_ranks(3, [&](dist::Communicator& communicator) {
    const int rank = communicator.rank();
    const auto write_model = [&](const fs::path& dir) {
      io::write_safetensors(dir / std::to_string(rank), {{"w", at::full({4}, rank)}});
    };
    io::TensorSlices slices = {{"w.exp_avg", 10 * rank, at::arange(10 * rank, 10 * rank + 10, at::kFloat)}};
    write_checkpoint(root.path(), state_at(7), write_model, slices, communicator);
    EXPECT_EQ(checkpoint_fault(root.path() / "step-0000000007"), "");
  });
  const Checkpoint loaded = open_checkpoint(root.path() / "step-0000000007");
  const io::SliceReader optimizer = loaded.optimizer();
  EXPECT_EQ(optimizer.size("w.exp_avg"), 30);
  EXPECT_TRUE(at::equal(optimizer.read("w.exp_avg", 7, 25), at::arange(7, 25, at::kFloat)));
  for (const char* name : {"model/0", "model/2", "optimizer-00002-of-00003.safetensors"}) {
    EXPECT_TRUE(fs::exists(loaded.dir / name)) << name;
  }
  fs::remove(loaded.dir / "optimizer-00002-of-00003.safetensors");
  EXPECT_NE(checkpoint_fault(loaded.dir).find("optimizer-00002-of-00003.safetensors is missing"), std::string::npos);
}

TEST(Checkpoint, WhatFailsOnOneRankFailsOnAllAndNothingStays) {
  const test::TempDir root;
  dist::run_thread_ranks(2, [&](dist::Communicator& communicator) {
    const auto write_model = [&](const fs::path& dir) {
      std::ofstream(dir / std::to_string(communicator.rank())) << "x";
      if (communicator.rank() == 1) {
        throw Error("weight w is not finite");
      }
    };
    const auto save = [&] { write_checkpoint(root.path(), state_at(1), write_model, {}, communicator); };
    try {
      save();
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("weight w is not finite"), std::string::npos);
    }
  });
  EXPECT_TRUE(fs::is_empty(root.path()));
}

TEST(Checkpoint, EveryKindOfDamageIsNamed) {
  const test::TempDir root;
  const fs::path dir = root.path() / "step-0000000001";
  const auto damaged = [&](const std::function<void()>& damage) {
    fs::remove_all(dir);
    write_step(root.path(), 1);
    damage();
    EXPECT_FALSE(find_newest(root.path()).checkpoint.has_value());
    return refusal([&] { open_checkpoint(dir); });
  };
  const auto expect_in = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_in(damaged([&] { fs::remove(dir / "manifest.json"); }), "no manifest.json");
  expect_in(damaged([&] { std::ofstream(dir / "manifest.json") << "{"; }), "manifest.json is damaged");
  expect_in(damaged([&] { std::ofstream(dir / "manifest.json") << R"({"files": [{"path": 3}]})"; }),
            "manifest.json is damaged");
  expect_in(damaged([&] { fs::remove(dir / "state.json"); }), "state.json is missing");
  expect_in(damaged([&] { append_byte(dir / "model" / "model.safetensors"); }), "model/model.safetensors has");
  expect_in(damaged([&] { fs::resize_file(dir / kOptimizer, fs::file_size(dir / kOptimizer) - 1); }),
            kOptimizer + " has");
  expect_in(damaged([&] {
              std::fstream file(dir / kOptimizer, std::ios::in | std::ios::out | std::ios::binary);
              file.seekp(-3, std::ios::end);
              file.put('x');
            }),
            "SHA-256");
  expect_in(damaged([&] { std::ofstream(dir / "stray") << "x"; }), "stray is not in the manifest");
  expect_in(refusal([&] { open_checkpoint(root.path() / "step-0000000009"); }), "no such checkpoint");
}

TEST(Checkpoint, NewestCompleteWinsAndSkippedOnesAreNamed) {
  const test::TempDir root;
  for (const std::int64_t step : {9, 10, 11}) {
    write_step(root.path(), step);
  }
  fs::resize_file(root.path() / "step-0000000011" / kOptimizer, 10);
  fs::create_directories(root.path() / "step-0000000012.tmp" / "model");
  const NewestCheckpoint newest = find_newest(root.path());
  ASSERT_TRUE(newest.checkpoint.has_value());
  EXPECT_EQ(newest.checkpoint->state.step, 10);
  ASSERT_EQ(newest.skipped.size(), 1u);
  EXPECT_NE(newest.skipped[0].find("step-0000000011"), std::string::npos);

  const auto done = set_aside_after(root.path(), newest.checkpoint->state.step);
  EXPECT_EQ(done.size(), 2u);
  EXPECT_FALSE(fs::exists(root.path() / "step-0000000012.tmp"));
  EXPECT_TRUE(fs::exists(root.path() / "step-0000000011.set-aside"));
  write_step(root.path(), 11);  // the step can be written again
  EXPECT_EQ(find_newest(root.path()).checkpoint->state.step, 11);
}

TEST(Checkpoint, PruneKeepsTheNewestCompleteOnes) {
  const test::TempDir root;
  for (const std::int64_t step : {1, 2, 3, 4}) {
    write_step(root.path(), step);
  }
  fs::remove(root.path() / "step-0000000004" / "manifest.json");
  prune(root.path(), 2);
  EXPECT_EQ(
      list_checkpoints(root.path()),
      (std::vector{root.path() / "step-0000000002", root.path() / "step-0000000003", root.path() / "step-0000000004"}));
}

TEST(Checkpoint, NonFiniteMomentsAndFailedWritesLeaveNothing) {
  const test::TempDir root;
  const auto solo = dist::make_solo_communicator();
  const auto nothing = [](const fs::path& dir) { fs::create_directories(dir); };
  EXPECT_THROW(write_checkpoint(root.path(), state_at(1), nothing,
                                {{"m", 0, at::full({2}, std::numeric_limits<float>::quiet_NaN())}}, *solo),
               Error);
  const auto failing = [](const fs::path& dir) {
    fs::create_directories(dir);
    throw Error("weight w is not finite");
  };
  EXPECT_THROW(write_checkpoint(root.path(), state_at(1), failing, {}, *solo), Error);
  EXPECT_TRUE(fs::is_empty(root.path()));
}

TEST(Checkpoint, SpaceIsCheckedBeforeAndWithATrial) {
  const test::TempDir root;
  require_space(root.path() / "not" / "there", 1 << 20, "a checkpoint");
  EXPECT_TRUE(fs::is_empty(root.path()));
  const std::string message = refusal([&] { require_space(root.path(), std::uint64_t{1} << 60, "a checkpoint"); });
  EXPECT_NE(message.find("a checkpoint needs"), std::string::npos) << message;
}

// SIGKILL at random moments of saving and pruning: what is found afterwards is complete, holds one step's values
// throughout, and is never older than a checkpoint found before.
TEST(Checkpoint, SigkillWhileSaving) {
  const test::TempDir root;
  RandomStream random(11, 0);
  std::int64_t reached = 0;
  for (int kill = 0; kill < 20; ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      at::set_num_threads(1);  // OpenMP's threads do not survive a fork
      set_aside_after(root.path(), reached);
      for (std::int64_t step = reached + 1;; ++step) {
        write_step(root.path(), step, 300000);
        prune(root.path(), 2);
      }
    }
    while (fs::is_empty(root.path()) || (kill % 2 == 0 && !fs::exists(checkpoint_path(root.path(), reached + 1)))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(60)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const NewestCheckpoint newest = find_newest(root.path());
    EXPECT_TRUE(newest.skipped.empty());
    if (!newest.checkpoint) {
      EXPECT_EQ(reached, 0);
      continue;
    }
    EXPECT_GE(newest.checkpoint->state.step, reached);
    reached = newest.checkpoint->state.step;
    const io::SliceReader optimizer = newest.checkpoint->optimizer();
    for (const std::string& name : optimizer.names()) {
      const at::Tensor values = optimizer.read(name, 0, optimizer.size(name));
      EXPECT_TRUE(at::equal(values, at::full_like(values, static_cast<float>(reached)))) << name;
    }
  }
  EXPECT_GT(reached, 3);
  std::cout << "20 kills, " << reached << " checkpoints\n";
}

}  // namespace
}  // namespace hydra::checkpoint
