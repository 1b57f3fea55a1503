// Ranks from the variables of torchrun, Slurm and OpenMPI.

#include "hydrahead/dist/launch_env.hpp"

#include <gtest/gtest.h>

#include <map>

#include "hydrahead/base/error.hpp"

namespace {

using Variables = std::map<std::string, std::string>;

hydra::dist::LaunchEnv read(const Variables& variables) {
  return hydra::dist::read_launch_env([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal(const Variables& variables) {
  try {
    read(variables);
  } catch (const hydra::UserError& error) {
    return error.what();
  }
  return "";
}

TEST(LaunchEnv, SingleProcess) {
  const auto env = read({});
  EXPECT_EQ(env.launcher, "single");
  EXPECT_EQ(env.world_size, 1);
  EXPECT_EQ(hydra::dist::make_communicator(env, c10::Device(c10::kCPU))->size(), 1);
}

TEST(LaunchEnv, TorchrunServesTheStoreItself) {
  const Variables variables = {{"RANK", "5"},
                               {"LOCAL_RANK", "1"},
                               {"WORLD_SIZE", "8"},
                               {"MASTER_ADDR", "node0"},
                               {"MASTER_PORT", "29400"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                               {"SLURM_PROCID", "3"}};
  const auto env = read(variables);
  EXPECT_EQ(env.launcher, "torchrun");
  EXPECT_EQ(env.rank, 5);
  EXPECT_EQ(env.local_rank, 1);
  EXPECT_EQ(env.world_size, 8);
  EXPECT_EQ(env.master_address, "node0");
  EXPECT_EQ(env.master_port, 29400);
  EXPECT_TRUE(env.agent_store);
  EXPECT_EQ(env.store_prefix, "hydrahead/2");
}

TEST(LaunchEnv, SlurmAndOpenMpi) {
  const Variables master = {{"MASTER_ADDR", "n"}, {"MASTER_PORT", "1234"}};
  Variables slurm = {{"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "3"}, {"SLURM_NTASKS", "4"}};
  slurm.insert(master.begin(), master.end());
  EXPECT_EQ(read(slurm).launcher, "slurm");
  EXPECT_EQ(read(slurm).rank, 3);
  EXPECT_FALSE(read(slurm).agent_store);
  Variables openmpi = {
      {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  openmpi.insert(master.begin(), master.end());
  EXPECT_EQ(read(openmpi).launcher, "openmpi");
  EXPECT_EQ(read(openmpi).local_rank, 0);
}

TEST(LaunchEnv, RefusalsNameTheVariable) {
  EXPECT_EQ(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
            "environment variable LOCAL_RANK is not set, expected a number from 0 to 1");
  EXPECT_EQ(refusal({{"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}),
            "environment variable RANK is not set, expected a number from 0 to 1");
  EXPECT_EQ(refusal({{"RANK", "2"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}}),
            "environment variable RANK: found \"2\", expected a number from 0 to 1");
  EXPECT_EQ(refusal({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "2"}}),
            "environment variable MASTER_ADDR is not set, expected the host of rank 0 (slurm started 2 ranks)");
  EXPECT_EQ(
      refusal({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "n"}, {"MASTER_PORT", "x"}}),
      "environment variable MASTER_PORT: found \"x\", expected a number from 1 to 65535");
}

}  // namespace
