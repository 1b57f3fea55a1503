#pragma once
// Ranks that are processes on CPUs.

#include "hydrahead/dist/launch_env.hpp"

namespace hydra::dist {

std::unique_ptr<Communicator> make_store_communicator(const LaunchEnv& env, int timeout_seconds);

}  // namespace hydra::dist
