#pragma once
// The gradients of all trained parameters in one flat buffer: zeroed, reduced over ranks and measured in one call each.
// Every .grad is a view into it, into which backward accumulates in place.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hydrahead/dist/communicator.hpp"

namespace hydra::optim {

class GradientBuffer {
 public:
  // Sets the .grad of each parameter (one dtype, one device) to a zeroed view; the destructor drops them.
  explicit GradientBuffer(std::vector<at::Tensor> parameters);
  GradientBuffer(const GradientBuffer&) = delete;
  GradientBuffer& operator=(const GradientBuffer&) = delete;
  ~GradientBuffer();

  void zero();
  void sum_over_ranks(dist::Communicator& communicator);
  // Throws if a backward pass replaced a parameter's .grad instead of adding to it.
  void check_views() const;

  const at::Tensor& flat() const { return flat_; }                     // [padded elements]
  const std::vector<at::Tensor>& gradients() const { return views_; }  // in the order of the parameters

 private:
  std::vector<at::Tensor> parameters_, views_;
  at::Tensor flat_;
};

// What the optimizer is told about a step's gradients: fp32 scalars on the device, found without a host sync.
struct GradientCheck {
  at::Tensor norm;        // global L2 norm before clipping
  at::Tensor divisor;     // max(1, norm / clip): clipping divides the gradients by it
  at::Tensor non_finite;  // 1 if the norm is not finite on any rank: all ranks skip the update; else 0
};

// clip = 0: no clipping.
GradientCheck check_gradients(const GradientBuffer& buffer, double clip, dist::Communicator& communicator);

}  // namespace hydra::optim
