// The choice of a back end.

#include <ATen/Context.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/dist/launch_env.hpp"
#include "store_communicator.hpp"
#if HYDRA_CUDA
#include "nccl_communicator.hpp"
#endif

namespace hydra::dist {

int device_index(const LaunchEnv& env) {
  const auto devices = static_cast<int>(at::getNumGPUs());
  if (env.world_size == 1 || devices == 1) {
    return 0;
  }
  HYDRA_REQUIRE(env.local_rank < devices, env.launcher, " started ", env.world_size, " ranks, and rank ", env.rank,
                " has the local rank ", env.local_rank, "; found ", devices,
                " visible CUDA devices, expected one for each rank");
  return env.local_rank;
}

std::unique_ptr<Communicator> make_communicator(const LaunchEnv& env, const c10::Device& device, int timeout_seconds) {
  if (env.world_size == 1) {
    return make_solo_communicator();
  }
  set_log_prefix("rank " + std::to_string(env.rank));
#if HYDRA_CUDA
  if (device.is_cuda()) {
    return make_nccl_communicator(env, device, timeout_seconds);
  }
#endif
  HYDRA_CHECK(device.is_cpu(), "ranks on ", device.str());
  return make_store_communicator(env, timeout_seconds);
}

}  // namespace hydra::dist
