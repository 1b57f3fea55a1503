#pragma once
// Which rank this process is: torchrun's variables, then Slurm's, then OpenMPI's, else a single process.

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "hydrahead/dist/communicator.hpp"

namespace hydra::dist {

struct LaunchEnv {
  std::string launcher = "single";  // torchrun (also `hydrahead launch`) | slurm | openmpi | single
  int rank = 0, local_rank = 0, world_size = 1;
  std::string master_address;  // of rank 0's store; empty for a single process
  int master_port = 0;
  bool agent_store = false;  // torchrun's agent serves the port already
  std::string store_prefix;  // differs between torchrun's restarts
};

// Looks a variable up; nothing if it is not set.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// UserError naming the variable that is missing or wrong.
LaunchEnv read_launch_env(const Lookup& lookup);
LaunchEnv read_launch_env();  // from the process environment

// The CUDA device of this rank: `local_rank`, or 0 where the launcher shows each rank one device only. UserError if
// there is none for it.
int device_index(const LaunchEnv& env);

constexpr int kDefaultTimeoutSeconds = 300;

// Solo for one rank; else NCCL on a CUDA device, the meeting point's store on CPUs. All ranks have joined when it
// returns; a UserError after `timeout_seconds` names the address, the port and the missing ranks, another one two ranks
// on the same CUDA device. From then on a thread watches the collectives: where a rank that is waited for has ended, or
// has not answered for `timeout_seconds`, the process ends with exit status 1 (75 if a stop signal came) and a message
// that names the rank and the collective.
std::unique_ptr<Communicator> make_communicator(const LaunchEnv& env, const c10::Device& device,
                                                int timeout_seconds = kDefaultTimeoutSeconds);

}  // namespace hydra::dist
