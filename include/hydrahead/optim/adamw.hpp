#pragma once
// AdamW (Loshchilov and Hutter, 2019) on this rank's masters through ATen's fused kernel. Clipping and the decision to
// skip a step with non-finite gradients stay on the device.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hydrahead/io/tensor_slices.hpp"
#include "hydrahead/optim/flat_parameters.hpp"
#include "hydrahead/optim/gradients.hpp"
#include "hydrahead/optim/optim_config.hpp"

namespace hydra::optim {

class AdamW {
 public:
  // Moments of zero, step 0: a stage starts with a fresh optimizer. `parameters` must outlive it.
  AdamW(const FlatParameters& parameters, const OptimizerConfig& config);

  // One update of all parameters: begin_step, then each unit once. `gradient` is of the unit's master and is divided by
  // check.divisor in place. Changes nothing, the step count included, if check.non_finite is 1.
  void begin_step(const GradientCheck& check);
  void update(std::size_t unit, const at::Tensor& gradient, double rate, const GradientCheck& check);

  // What rank `rank` of `ranks` writes so that all of them together write everything once: "<parameter>.exp_avg",
  // "<parameter>.exp_avg_sq", and from rank 0 "step". Views, not copies.
  io::TensorSlices state(int rank, int ranks) const;
  // Copies a saved state in, whatever the number of ranks that wrote it. UserError unless `saved` has the moments of
  // exactly these parameters; `where` stands in messages.
  void load_state(const io::SliceReader& saved, const std::string& where);

 private:
  struct Moments {
    at::Tensor first, second;  // like the unit's master
  };
  // Calls each(name, moment, offset in the parameter, range of the moment) for elements [begin, end) of every unit.
  template <class Each>
  void for_each_moment(int part, int parts, const Each& each) const;

  OptimizerConfig config_;
  const FlatParameters& parameters_;
  std::vector<Moments> moments_;  // a unit each
  at::Tensor step_;               // fp32 scalar: updates done
};

}  // namespace hydra::optim
