#pragma once
// Starts the ranks of a job on this machine and waits for them: what torchrun does, without Python.

#include <string>
#include <vector>

namespace hydra::dist {

struct LocalLaunch {
  int ranks = 1;
  std::vector<std::string> command;  // program and arguments; every rank runs the same
  int port = 0;                      // of rank 0's store; 0: a free one
  double grace_seconds = 5.0;        // for the other ranks to end by themselves when one has failed; then SIGKILL
};

// Each rank gets torchrun's variables (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT).
// SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to all of them. Returns the exit status for the whole job:
// 0, 75 if ranks were stopped by a signal and saved, else that of the rank that failed first (1 if a signal killed it),
// which is named on standard error with the reason. No rank outlives the call.
int run_local_ranks(const LocalLaunch& launch);

// For the program that run_local_ranks starts: ends with SIGTERM when the launcher dies.
void follow_launcher();

}  // namespace hydra::dist
