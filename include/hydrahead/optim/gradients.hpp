#pragma once
// The gradients of a step, summed over micro-batches and ranks (engineering.md A2). A layer's gradients are reduced
// when its backward pass has ended, beside the passes of other layers, and after every micro-batch: so all ways of
// sharding add the same numbers in the same order.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/optim/flat_parameters.hpp"

namespace hydra::optim {

class Gradients {
 public:
  // sharded: whole gradients exist only between the backward pass of a layer and its reduction; else every .grad is a
  // view of a buffer that stays. first_layer_first: the order in which backward completes the layers, for the loss that
  // ends each layer's pass before the next begins.
  Gradients(FlatParameters& parameters, bool sharded, bool first_layer_first, dist::Communicator& communicator);
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;
  ~Gradients();  // drops every .grad

  void begin_step();
  void begin_micro_batch();
  // The gradients of this layer are complete for this micro-batch. Ranks may report layers late or not at all.
  void layer_done(std::int64_t layer);
  // All gradients are complete. Every rank must come here equally often, also one that had no rows.
  void end_micro_batch();
  void end_step();

  // After end_step: the sums over ranks. This rank's part of a unit [size / ranks], and what belongs to its master.
  const at::Tensor& part(std::size_t unit) const { return states_[unit].part; }
  at::Tensor of_master(std::size_t unit) const;

 private:
  struct UnitState {
    at::Tensor whole;  // [size] of this rank; undefined between reductions if sharded
    at::Tensor part;   // [size / ranks] sum over ranks
    bool ready = false;
  };
  struct Reduction {
    std::size_t unit;
    at::Tensor input, output;
    dist::Wait wait;
  };

  bool alone() const { return communicator_.size() == 1; }
  void bind_views();
  void start_ready_units();
  void start(std::size_t unit);
  void finish_oldest();
  at::Tensor collect(std::size_t unit);

  FlatParameters& parameters_;
  dist::Communicator& communicator_;
  const bool sharded_;
  std::vector<UnitState> states_;
  std::vector<std::size_t> order_;  // in which units are reduced: the same on every rank
  std::size_t started_ = 0;         // of order_, in this micro-batch
  bool first_micro_batch_ = true;
  std::deque<Reduction> running_;
};

// What the optimizer is told about a step's gradients: fp32 scalars on the device, found without a host sync.
struct GradientCheck {
  at::Tensor norm;        // global L2 norm before clipping
  at::Tensor divisor;     // max(1, norm / clip): clipping divides the gradients by it
  at::Tensor non_finite;  // 1 if the norm is not finite: no rank updates; else 0
};

// clip = 0: no clipping. The same bits on every rank, however the gradients are sharded.
GradientCheck check_gradients(const Gradients& gradients, const FlatParameters& parameters, double clip,
                              dist::Communicator& communicator);

}  // namespace hydra::optim
