// Collectives between threads, and the end of all ranks when one fails.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>

#include "hydrahead/base/error.hpp"
#include "hydrahead/dist/communicator.hpp"

namespace {

using hydra::dist::Communicator;
using hydra::dist::run_thread_ranks;

// Runs the body and returns the message of the exception, "" if there is none.
template <class Error>
std::string failure(int ranks, const std::function<void(Communicator&)>& body) {
  try {
    run_thread_ranks(ranks, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ThreadRanks, AllReduceSumsOverRanksInTheirOrder) {
  constexpr int ranks = 3;
  std::vector<at::Tensor> results(ranks);
  run_thread_ranks(ranks, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    EXPECT_EQ(communicator.size(), ranks);
    // 1e8 + 1 - 1e8 in fp32 depends on the order; every rank must see the same bits.
    at::Tensor values = at::full({5}, rank == 0 ? 1e8f : rank == 1 ? 1.0f : -1e8f);
    values[1] = static_cast<float>(rank);
    communicator.all_reduce_sum(values);
    results[static_cast<std::size_t>(rank)] = values;
    for (int step = 0; step < 200; ++step) {
      at::Tensor number = at::full({1}, static_cast<double>(step + rank), at::kDouble);
      communicator.all_reduce_sum(number);
      EXPECT_EQ(number.item<double>(), 3.0 * step + 3.0);
    }
  });
  EXPECT_EQ(results[0][1].item<float>(), 3.0f);
  EXPECT_TRUE(at::equal(results[0], results[1]) && at::equal(results[0], results[2]));
}

TEST(ThreadRanks, BroadcastGatherAndReduceScatter) {
  run_thread_ranks(4, [](Communicator& communicator) {
    const int rank = communicator.rank();
    at::Tensor value = at::full({2, 3}, rank, at::kLong);
    communicator.broadcast(value, 2);
    EXPECT_TRUE(at::equal(value, at::full({2, 3}, 2, at::kLong)));

    std::vector<at::Tensor> all(4);
    for (at::Tensor& tensor : all) {
      tensor = at::empty({2});
    }
    communicator.all_gather(all, at::full({2}, static_cast<float>(rank)));
    for (int other = 0; other < 4; ++other) {
      EXPECT_TRUE(at::equal(all[static_cast<std::size_t>(other)], at::full({2}, static_cast<float>(other))));
    }

    std::vector<at::Tensor> parts;  // part p of rank r holds 10 r + p; rank p gets 60 + 4 p
    for (int part = 0; part < 4; ++part) {
      parts.push_back(at::full({3}, static_cast<float>(10 * rank + part)));
    }
    at::Tensor sum = at::empty({3});
    communicator.start_reduce_scatter(sum, at::cat(parts))();
    EXPECT_TRUE(at::equal(sum, at::full({3}, static_cast<float>(60 + 4 * rank))));

    at::Tensor whole = at::zeros({8});
    whole.narrow(0, 2 * rank, 2).fill_(rank + 1);
    communicator.start_all_gather(whole, whole.narrow(0, 2 * rank, 2))();  // in place
    EXPECT_TRUE(at::equal(whole, at::tensor({1.0f, 1.0f, 2.0f, 2.0f, 3.0f, 3.0f, 4.0f, 4.0f})));
    EXPECT_GT(communicator.take_wait_seconds(), 0.0);

    EXPECT_TRUE(any_rank(communicator, rank == 3));
    EXPECT_FALSE(any_rank(communicator, false));
  });
}

TEST(ThreadRanks, ParametersThatRequireGradCanBeBroadcast) {
  run_thread_ranks(2, [](Communicator& communicator) {
    at::Tensor parameter = at::full({2}, static_cast<float>(communicator.rank())).set_requires_grad(true);
    communicator.broadcast(parameter, 0);
    EXPECT_EQ(parameter.sum().item<float>(), 0.0f);
    EXPECT_TRUE(parameter.is_leaf());
  });
}

TEST(ThreadRanks, OneFailureEndsAllRanks) {
  std::atomic<int> passed = 0;
  const std::string message = failure<hydra::UserError>(3, [&](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 1) {
      hydra::fail_request("rank 1 cannot read its shard");
    }
    communicator.barrier();
    ++passed;
  });
  EXPECT_EQ(message, "rank 1 cannot read its shard");
  EXPECT_EQ(passed, 0);
}

TEST(ThreadRanks, ARankThatEndsEarlyIsNoDeadlock) {
  const std::string message = failure<hydra::Error>(2, [](Communicator& communicator) {
    if (communicator.rank() == 0) {
      communicator.barrier();
    }
  });
  EXPECT_EQ(message, "a rank waits in a collective for one that has failed or ended");
}

TEST(ThreadRanks, DifferentShapesAreRefused) {
  EXPECT_NE(failure<hydra::Error>(2,
                                  [](Communicator& communicator) {
                                    at::Tensor values = at::zeros({2 + communicator.rank()});
                                    communicator.all_reduce_sum(values);
                                  }),
            "");
}

TEST(ThreadRanks, TextsMustAgree) {
  run_thread_ranks(2,
                   [](Communicator& communicator) { require_same_on_all_ranks(communicator, "the config", "a: 1"); });
  EXPECT_EQ(failure<hydra::UserError>(3,
                                      [](Communicator& communicator) {
                                        const std::string text = communicator.rank() == 2 ? "a: 2" : "a: 1";
                                        require_same_on_all_ranks(communicator, "the config", text);
                                      }),
            "the config differs between rank 0 and rank 2, expected the same on every rank");
}

TEST(ThreadRanks, TextsOfAnyLengthAreGathered) {
  run_thread_ranks(3, [](Communicator& communicator) {
    const std::string mine(static_cast<std::size_t>(5 * communicator.rank()), 'x');
    EXPECT_EQ(gather_texts(communicator, mine), (std::vector<std::string>{"", "xxxxx", "xxxxxxxxxx"}));
  });
}

TEST(ThreadRanks, AnActionFailsOnAllRanksAlike) {
  run_thread_ranks(3, [](Communicator& communicator) {
    const auto fails_on = [&](int rank, auto failure) {
      return [&communicator, rank, failure] {
        if (communicator.rank() == rank) {
          throw failure;
        }
      };
    };
    run_together(communicator, [] {});
    try {
      run_together(communicator, fails_on(1, hydra::UserError("no file x")));
      FAIL();
    } catch (const hydra::UserError& error) {
      EXPECT_STREQ(error.what(), communicator.rank() == 1 ? "no file x" : "rank 1: no file x");
    }
    EXPECT_THROW(run_together(communicator, fails_on(2, hydra::Interrupted("stopped"))), hydra::Interrupted);
    EXPECT_THROW(run_together(communicator, fails_on(0, std::runtime_error("disk"))), std::exception);
  });
}

TEST(Solo, IsItsOwnJob) {
  const auto solo = hydra::dist::make_solo_communicator();
  at::Tensor value = at::full({2}, 3.0f);
  solo->all_reduce_sum(value);
  std::vector<at::Tensor> all = {at::empty({2})};
  solo->all_gather(all, value);
  EXPECT_TRUE(at::equal(all[0], at::full({2}, 3.0f)));
  EXPECT_TRUE(any_rank(*solo, true));
}

}  // namespace
