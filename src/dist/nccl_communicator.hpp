#pragma once
// NCCL through c10d, compiled with CUDA only.

#include "hydrahead/dist/launch_env.hpp"

namespace hydra::dist {

std::unique_ptr<Communicator> make_nccl_communicator(const LaunchEnv& env, int timeout_seconds);

}  // namespace hydra::dist
