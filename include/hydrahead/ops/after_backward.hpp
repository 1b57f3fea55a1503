#pragma once
// A point in the graph at which the caller is told that backward has come past it.

#include <ATen/core/Tensor.h>

#include <functional>

namespace hydra::ops {

// x itself. When backward reaches it, everything that the graph computes from the result is done, the accumulation of
// parameters' gradients too: `reached` is called then, on autograd's thread. x where it needs no gradient.
at::Tensor after_backward(const at::Tensor& x, std::function<void()> reached);

}  // namespace hydra::ops
