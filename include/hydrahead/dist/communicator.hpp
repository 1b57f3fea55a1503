#pragma once
// Collectives between ranks: solo (one rank), threads (tests), processes on a CPU (through the store where they met),
// NCCL over c10d (GPUs). All ranks call the same ones in the same order.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hydrahead/base/directory_claim.hpp"

namespace hydra::dist {

// Of a collective under way: puts the current stream (on a CPU, the caller) behind its end. Call it once; the
// collective's tensors must live and stay untouched until then.
using Wait = std::function<void()>;

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void all_reduce_sum(at::Tensor& tensor) = 0;                                     // in place
  virtual void broadcast(at::Tensor& tensor, int root) = 0;                                // in place
  virtual void all_gather(std::vector<at::Tensor>& outputs, const at::Tensor& input) = 0;  // equal shapes
  virtual void barrier() = 0;

  // output [n]: elements rank * n ... of the sum over ranks of input [R n].
  virtual Wait start_reduce_scatter(const at::Tensor& output, const at::Tensor& input) = 0;
  // output [R n]: the inputs [n] of all ranks in their order; input may be this rank's part of output.
  virtual Wait start_all_gather(const at::Tensor& output, const at::Tensor& input) = 0;
  // Whether start_... keeps the calling thread until the other ranks have come.
  virtual bool start_blocks() const = 0;

  // Seconds that this rank's work stood still for collectives since the last call. On a GPU: of its current stream,
  // whose work must be done.
  virtual double take_wait_seconds() = 0;
};

std::unique_ptr<Communicator> make_solo_communicator();

// Runs body(communicator) on `ranks` threads; the first exception ends all ranks and is rethrown.
void run_thread_ranks(int ranks, const std::function<void(Communicator&)>& body);

bool any_rank(Communicator& communicator, bool value);                                       // logical OR over ranks
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);  // in order of the ranks
// Runs `action` on every rank. If it throws on some rank, all ranks throw: the others an exception of the same kind
// that names the rank.
void run_together(Communicator& communicator, const std::function<void()>& action);
// Rank 0 holds the claim of a job's directory, the other ranks null; a refusal is one of all ranks. Nothing is made
// before every rank is here, so that each may look first.
std::unique_ptr<DirectoryClaim> claim_for_job(Communicator& communicator, const std::filesystem::path& directory);
// Throws on every rank if the text differs between ranks, naming `what` and a rank that differs.
void require_same_on_all_ranks(Communicator& communicator, const std::string& what, const std::string& text);

}  // namespace hydra::dist
