// NCCL with one rank on one GPU: every collective of the interface, several under way at a time, and an orderly end.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "src/dist/nccl_communicator.hpp"
#include "tests/support/cuda.hpp"
#include "tests/support/free_port.hpp"

#if HYDRA_CUDA

namespace {

TEST(NcclOneRank, CollectivesOnTheirOwnStream) {
  HYDRA_NEEDS_CUDA();
  hydra::dist::LaunchEnv env;
  env.master_address = "127.0.0.1";
  env.master_port = hydra::test::free_port();
  env.store_prefix = "test";
  const at::Device device(at::kCUDA, 0);
  const auto communicator = hydra::dist::make_nccl_communicator(env, device, 30);
  EXPECT_EQ(communicator->size(), 1);
  EXPECT_FALSE(communicator->start_blocks());
  const auto options = at::TensorOptions(device).dtype(at::kFloat);
  // The sums wait for the products before them, and what follows waits for the sums.
  const at::Tensor a = at::ones({2048, 2048}, options);
  std::vector<at::Tensor> outputs;
  std::vector<hydra::dist::Wait> waits;
  for (int i = 1; i <= 4; ++i) {
    const at::Tensor input = at::mm(a, a).mul_(i).flatten();
    outputs.push_back(at::empty_like(input));
    waits.push_back(communicator->start_reduce_scatter(outputs.back(), input));
  }
  for (int i = 1; i <= 4; ++i) {
    waits[static_cast<std::size_t>(i - 1)]();
    EXPECT_EQ(outputs[static_cast<std::size_t>(i - 1)].max().item<float>(), 2048.0f * static_cast<float>(i));
  }
  at::Tensor whole = at::full({1 << 20}, 3.0, options.dtype(at::kBFloat16));
  communicator->start_all_gather(whole, whole)();  // in place
  EXPECT_EQ(whole.sum(at::kFloat).item<float>(), 3.0f * (1 << 20));
  at::Tensor sum = at::full({3}, 2.0, options), on_host = at::full({3}, 2.0);
  communicator->all_reduce_sum(sum);
  communicator->all_reduce_sum(on_host);
  communicator->broadcast(sum, 0);
  EXPECT_TRUE(at::equal(sum.cpu(), on_host));
  EXPECT_EQ(hydra::dist::gather_texts(*communicator, "x"), std::vector<std::string>{"x"});
  communicator->barrier();
  EXPECT_GE(communicator->take_wait_seconds(), 0.0);
}

}  // namespace

#endif  // HYDRA_CUDA
