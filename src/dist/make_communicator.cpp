// The choice of a back end.

#include "hydrahead/base/error.hpp"
#include "hydrahead/dist/launch_env.hpp"
#if HYDRA_CUDA
#include "nccl_communicator.hpp"
#endif

namespace hydra::dist {

std::unique_ptr<Communicator> make_communicator(const LaunchEnv& env, [[maybe_unused]] int timeout_seconds) {
  if (env.world_size == 1) {
    return make_solo_communicator();
  }
#if HYDRA_CUDA
  return make_nccl_communicator(env, timeout_seconds);
#else
  fail_request(env.launcher, " started ", env.world_size, " ranks; this binary was built without CUDA and expects one");
#endif
}

}  // namespace hydra::dist
