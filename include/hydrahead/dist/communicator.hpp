#pragma once
// Collectives between ranks: solo (one rank), threads (tests on a CPU), NCCL over c10d (GPUs).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hydra::dist {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void all_reduce_sum(at::Tensor& tensor) = 0;                                     // in place
  virtual void broadcast(at::Tensor& tensor, int root) = 0;                                // in place
  virtual void all_gather(std::vector<at::Tensor>& outputs, const at::Tensor& input) = 0;  // equal shapes
  virtual void reduce_scatter_sum(at::Tensor& output, const std::vector<at::Tensor>& inputs) = 0;
  virtual void barrier() = 0;
};

std::unique_ptr<Communicator> make_solo_communicator();

// Runs body(communicator) on `ranks` threads; the first exception ends all ranks and is rethrown.
void run_thread_ranks(int ranks, const std::function<void(Communicator&)>& body);

bool any_rank(Communicator& communicator, bool value);  // logical OR over ranks
// Throws on every rank if the text differs between ranks, naming `what` and a rank that differs.
void require_same_on_all_ranks(Communicator& communicator, const std::string& what, const std::string& text);

}  // namespace hydra::dist
