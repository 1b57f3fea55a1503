// Collectives through the meeting point's store, with threads in the place of processes, and the watchdog that ends a
// rank whose collective cannot complete.

#include "src/dist/store_communicator.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/signals.hpp"
#include "src/dist/watchdog.hpp"
#include "tests/support/free_port.hpp"

namespace hydra::dist {
namespace {

std::vector<LaunchEnv> ranks_of(int size) {
  std::vector<LaunchEnv> envs(static_cast<std::size_t>(size));
  const int port = test::free_port();
  for (int rank = 0; rank < size; ++rank) {
    LaunchEnv& env = envs[static_cast<std::size_t>(rank)];
    env.launcher = "torchrun";
    env.rank = env.local_rank = rank;
    env.world_size = size;
    env.master_address = "127.0.0.1";
    env.master_port = port;
    env.store_prefix = "test";
  }
  return envs;
}

void on_threads(const std::vector<LaunchEnv>& envs, const std::function<void(const LaunchEnv&)>& body) {
  std::vector<std::thread> threads;
  for (const LaunchEnv& env : envs) {
    threads.emplace_back([&body, &env] { body(env); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(StoreCommunicator, EveryCollective) {
  on_threads(ranks_of(3), [](const LaunchEnv& env) {
    const auto communicator = make_store_communicator(env, 60);
    const int rank = communicator->rank();
    for (int round = 0; round < 20; ++round) {
      at::Tensor sum = at::full({4}, static_cast<double>(rank + round), at::kDouble);
      communicator->all_reduce_sum(sum);
      EXPECT_TRUE(at::equal(sum, at::full({4}, 3.0 + 3.0 * round, at::kDouble)));
    }
    // 1e8 + 1 - 1e8 in fp32 depends on the order; every rank must see the same bits.
    at::Tensor ordered = at::full({2}, rank == 0 ? 1e8f : rank == 1 ? 1.0f : -1e8f);
    communicator->all_reduce_sum(ordered);
    EXPECT_EQ(ordered[0].item<float>(), 0.0f);
    at::Tensor value = at::full({2, 3}, rank, at::kLong);
    communicator->broadcast(value, 2);
    EXPECT_TRUE(at::equal(value, at::full({2, 3}, 2, at::kLong)));
    // More than one message of the store.
    const std::int64_t part = 1'500'000;
    const at::Tensor output = at::empty({part});
    communicator->start_reduce_scatter(output, at::arange(3 * part, at::kFloat))();
    EXPECT_EQ(output[7].item<float>(), 3.0f * static_cast<float>(rank * part + 7));
    const at::Tensor whole = at::zeros({6});
    whole.narrow(0, 2 * rank, 2).fill_(rank);
    communicator->start_all_gather(whole, whole.narrow(0, 2 * rank, 2))();
    EXPECT_TRUE(at::equal(whole, at::tensor({0.0f, 0.0f, 1.0f, 1.0f, 2.0f, 2.0f})));
    EXPECT_EQ(gather_texts(*communicator, std::string(static_cast<std::size_t>(rank), 'x')),
              (std::vector<std::string>{"", "x", "xx"}));
    communicator->barrier();
    EXPECT_GT(communicator->take_wait_seconds(), 0.0);
  });
}

// What a watchdog ended its process with.
struct Ending {
  std::promise<std::pair<int, std::string>> told;
  std::atomic<bool> over = false;
  Watchdog::End end() {
    return [this](int status, const std::string& reason) {
      if (!over.exchange(true)) {
        told.set_value({status, reason});
      }
    };
  }
  Watchdog::Collective waiting(const std::string& name) {
    return {name, [] { return true; }, [this] { return over.load(); }};
  }
};

std::vector<Store> stores_of(const std::vector<LaunchEnv>& envs) {
  std::vector<Store> stores;
  for (const LaunchEnv& env : envs) {
    stores.push_back(open_store(env, 10));
  }
  return stores;
}

TEST(Watchdog, ARankThatDoesNotAnswerIsNamed) {
  const auto envs = ranks_of(3);
  const auto stores = stores_of(envs);  // rank 2 never says anything
  Ending first, second;
  Watchdog late(stores[1], envs[1], false, 60, second.end());
  Watchdog waits(stores[0], envs[0], false, 1, first.end());
  waits.watch({"all_reduce", [] { return true; }, [] { return true; }});
  waits.watch(first.waiting("reduce_scatter"));
  const auto [status, reason] = first.told.get_future().get();
  EXPECT_EQ(status, 1);
  EXPECT_EQ(
      reason,
      "rank 2 does not answer since 1 s, when it was at collective 0 (none); this rank waits for it in collective "
      "2 (reduce_scatter)");
}

TEST(Watchdog, ARankThatIsLateIsWaitedForWithAWarning) {
  const auto envs = ranks_of(2);
  const auto stores = stores_of(envs);
  Ending ending, unused;
  testing::internal::CaptureStderr();
  Watchdog late(stores[1], envs[1], false, 1, unused.end());
  Watchdog waits(stores[0], envs[0], false, 1, ending.end());
  waits.watch(ending.waiting("all_gather"));
  std::this_thread::sleep_for(std::chrono::milliseconds(2700));
  EXPECT_FALSE(ending.over);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("waited 1 s in collective 1 (all_gather) for rank 1 at collective 0 (none)"), std::string::npos)
      << text;
  late.watch(unused.waiting("all_gather"));  // now both are in it, and it does not complete
  EXPECT_EQ(ending.told.get_future().get().second,
            "collective 1 (all_gather) did not complete within 1 s, although all ranks have come to it");
}

TEST(Watchdog, ARankThatHasEndedIsNoticedAtOnce) {
  const auto envs = ranks_of(2);
  const auto stores = stores_of(envs);
  Ending ending, unused;
  Watchdog waits(stores[0], envs[0], false, 600, ending.end());
  {
    Watchdog ends(stores[1], envs[1], false, 600, unused.end());
    ends.watch({"barrier", [] { return true; }, [] { return true; }});
  }
  waits.watch({"barrier", [] { return true; }, [] { return true; }});
  waits.watch(ending.waiting("all_gather"));
  const auto [status, reason] = ending.told.get_future().get();
  EXPECT_EQ(status, 1);
  EXPECT_EQ(reason,
            "rank 1 has ended after collective 1 (barrier); this rank waits for it in collective 2 (all_gather)");
}

TEST(Watchdog, AFailedCollectiveEndsTheRank) {
  const auto envs = ranks_of(1);
  Ending ending;
  Watchdog watchdog(open_store(envs[0], 10), envs[0], false, 600, ending.end());
  watchdog.watch({"all_reduce", [] { return true; },
                  [&]() -> bool {
                    if (ending.over) {
                      return true;
                    }
                    throw Error("collective all_reduce failed: remote error");
                  }});
  EXPECT_EQ(ending.told.get_future().get().second, "collective all_reduce failed: remote error");
}

// Work that this rank has not come to is no reason to give up on others.
TEST(Watchdog, OnlyWhatThisRankHasReachedCounts) {
  const auto envs = ranks_of(2);
  const auto stores = stores_of(envs);
  Ending ending;
  std::atomic<bool> over = false;
  Watchdog watchdog(stores[0], envs[0], false, 1, ending.end());
  watchdog.watch({"all_reduce", [] { return false; }, [&] { return over.load(); }});
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_FALSE(ending.over);
  over = true;
}

TEST(Watchdog, AStopSignalIsPassedOn) {
  const auto envs = ranks_of(2);
  const auto stores = stores_of(envs);
  Ending ending;
  const Watchdog watchdog(stores[1], envs[1], false, 600, ending.end());
  EXPECT_FALSE(stop_requested());
  stores[0]->set("stop", "");  // as rank 0's would
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!stop_requested() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(stop_requested());
  clear_stop_request();
}

}  // namespace
}  // namespace hydra::dist
