#pragma once
// NCCL through c10d, compiled with CUDA only.

#include <c10/core/Device.h>

#include "hydrahead/dist/launch_env.hpp"

namespace hydra::dist {

// All collectives of one rank, too, when it is alone.
std::unique_ptr<Communicator> make_nccl_communicator(const LaunchEnv& env, const c10::Device& device,
                                                     int timeout_seconds);

}  // namespace hydra::dist
