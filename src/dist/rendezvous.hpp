#pragma once
// Where the ranks of a job meet: a TCPStore that rank 0 serves, or torchrun's agent.

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "hydrahead/dist/launch_env.hpp"

namespace hydra::dist {

using Store = c10::intrusive_ptr<c10d::Store>;

// UserError naming address and port if it cannot be opened or reached within the time.
Store open_store(const LaunchEnv& env, int timeout_seconds);

// Every rank says which device it has and waits for all others. UserError naming the missing ranks at the deadline, and
// two ranks with the same device; an empty `device` may be shared.
void join(c10d::Store& store, const LaunchEnv& env, const std::string& device, int timeout_seconds);

}  // namespace hydra::dist
