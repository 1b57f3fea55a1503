#pragma once
// Small helpers of the autograd Functions: the type of statistics, states and sums for a tensor's type (fp32; fp64 for
// fp64), the type of a parameter's gradient, and tensors that may be undefined.

#include <ATen/core/Tensor.h>

#include <optional>

namespace hydra::ops {

inline at::ScalarType statistics_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// A bf16 copy of an fp32 master asks for an fp32 gradient.
inline at::ScalarType gradient_type(const at::Tensor& parameter) {
  const bool asks = parameter.requires_grad() && parameter.is_leaf();
  return asks ? parameter.grad_dtype().value_or(parameter.scalar_type()) : parameter.scalar_type();
}

// Whether a tensor is where our kernels run, in a type that they take.
inline bool has_kernels(const at::Tensor& x) {
  return x.is_cuda() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

// An argument of an autograd Function that may be undefined: as a plain tensor it would have to be defined.
inline std::optional<at::Tensor> optional_tensor(const at::Tensor& x) {
  return x.defined() ? std::optional<at::Tensor>(x) : std::nullopt;
}
inline at::Tensor tensor_or_undefined(const std::optional<at::Tensor>& x) { return x.value_or(at::Tensor()); }

}  // namespace hydra::ops
