// NCCL between processes. Each test starts ranks of this program that run one of the DISABLED_ tests below.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "hydrahead/base/error.hpp"
#include "hydrahead/dist/launch_env.hpp"
#include "hydrahead/dist/local_launch.hpp"

namespace {

using hydra::dist::Communicator;

int run_ranks(int ranks, const std::string& test) {
  hydra::dist::LocalLaunch launch;
  launch.ranks = ranks;
  launch.command = {std::filesystem::read_symlink("/proc/self/exe"), "--gtest_also_run_disabled_tests",
                    "--gtest_filter=NcclRank." + test};
  return hydra::dist::run_local_ranks(launch);
}

TEST(Nccl, CollectivesOfTwoRanks) {
  if (at::getNumGPUs() < 2) {
    GTEST_SKIP() << "needs two CUDA devices";
  }
  EXPECT_EQ(run_ranks(2, "DISABLED_Collectives"), 0);
}

TEST(Nccl, TwoRanksOnOneDeviceAreRefused) {
  if (at::getNumGPUs() != 1) {
    GTEST_SKIP() << "needs one visible CUDA device";
  }
  EXPECT_EQ(run_ranks(2, "DISABLED_SharedDevice"), 0);
}

TEST(Nccl, AMissingRankIsNamedAtTheDeadline) {
  if (at::getNumGPUs() < 1) {
    GTEST_SKIP() << "needs a CUDA device";
  }
  EXPECT_EQ(run_ranks(1, "DISABLED_MissingRank"), 0);
}

class NcclRank : public ::testing::Test {
 protected:
  hydra::dist::LaunchEnv env = hydra::dist::read_launch_env();
};

// The same on CUDA tensors and on CPU tensors, which travel through the device.
TEST_F(NcclRank, DISABLED_Collectives) {
  const at::Device own(at::kCUDA, static_cast<c10::DeviceIndex>(hydra::dist::device_index(env)));
  const auto communicator = hydra::dist::make_communicator(env, own, 60);
  ASSERT_EQ(communicator->size(), 2);
  const int rank = communicator->rank();
  for (const at::Device device : {own, at::Device(at::kCPU)}) {
    const auto filled = [&](double value) {
      return at::full({1000}, value, at::TensorOptions(device).dtype(at::kFloat));
    };
    const auto holds = [](const at::Tensor& tensor, double value) {
      return at::equal(tensor.cpu(), at::full({1000}, value, at::kFloat));
    };
    at::Tensor tensor = filled(rank + 1);
    communicator->all_reduce_sum(tensor);
    EXPECT_TRUE(holds(tensor, 3));
    tensor.fill_(rank);
    communicator->broadcast(tensor, 1);
    EXPECT_TRUE(holds(tensor, 1));
    std::vector<at::Tensor> all = {filled(-1), filled(-1)};
    communicator->all_gather(all, filled(10 + rank));
    EXPECT_TRUE(holds(all[0], 10) && holds(all[1], 11));
  }
  // Flat forms, several under way at a time.
  const auto options = at::TensorOptions(own).dtype(at::kFloat);
  const at::Tensor input = at::cat({at::full({500}, rank + 1, options), at::full({500}, 10 * rank, options)});
  const at::Tensor sum = at::empty({500}, options), whole = at::zeros({1000}, options.dtype(at::kBFloat16));
  const auto first = communicator->start_reduce_scatter(sum, input);
  whole.narrow(0, 500 * rank, 500).fill_(rank + 1);
  const auto second = communicator->start_all_gather(whole, whole.narrow(0, 500 * rank, 500));
  first();
  second();
  EXPECT_TRUE(at::equal(sum.cpu(), at::full({500}, rank == 0 ? 3.0f : 10.0f)));
  EXPECT_EQ(whole.sum().item<float>(), 1500.0f);
  EXPECT_GE(communicator->take_wait_seconds(), 0.0);
  EXPECT_TRUE(hydra::dist::any_rank(*communicator, rank == 1));
  hydra::dist::require_same_on_all_ranks(*communicator, "the text", "a");
  EXPECT_THROW(hydra::dist::require_same_on_all_ranks(*communicator, "the text", rank == 0 ? "a" : "b"),
               hydra::UserError);
  communicator->barrier();
}

std::string refusal(const hydra::dist::LaunchEnv& env, int timeout_seconds) {
  try {
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(hydra::dist::device_index(env)));
    hydra::dist::make_communicator(env, device, timeout_seconds);
  } catch (const hydra::UserError& error) {
    return error.what();
  }
  return "";
}

TEST_F(NcclRank, DISABLED_SharedDevice) {
  const std::string message = refusal(env, 60);
  EXPECT_NE(message.find("both have the device"), std::string::npos) << message;
}

TEST_F(NcclRank, DISABLED_MissingRank) {
  env.world_size = 2;
  env.master_address = "127.0.0.1";
  env.master_port = std::stoi(std::getenv("MASTER_PORT"));
  const std::string message = refusal(env, 3);
  EXPECT_NE(message.find("127.0.0.1 port " + std::to_string(env.master_port)), std::string::npos) << message;
  EXPECT_NE(message.find("missing: 1"), std::string::npos) << message;
}

}  // namespace
