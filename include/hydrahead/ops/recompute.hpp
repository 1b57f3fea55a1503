#pragma once
// Activation checkpointing: runs a block without saving its activations and runs it again in the backward pass.

#include <ATen/core/Tensor.h>

#include <functional>

namespace hydra::ops {

// block(x) must be a pure function of x and of parameters that require grad; parameter gradients accumulate as a side
// effect of the nested backward. Loss and gradients are bit-identical with and without (engineering.md A3).
at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& block, const at::Tensor& x);

}  // namespace hydra::ops
