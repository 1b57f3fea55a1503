#pragma once
// From tensors to the kernels' plain arguments, for the *_cuda.cpp bindings. Nothing here owns memory: the tensors must
// live until the launch.

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <limits>

#include "hydrahead/base/error.hpp"
#include "kernels/head_rows.h"
#include "kernels/parameter.h"

namespace hydra::ops {

inline kernels::Element element_of(const at::Tensor& x) {
  HYDRA_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16, "kernels take fp32 or bf16, not ",
              x.scalar_type());
  return x.scalar_type() == at::kFloat ? kernels::Element::fp32 : kernels::Element::bf16;
}

// A small parameter in a type that kernels read.
inline at::Tensor stored_parameter(const at::Tensor& x) {
  return !x.defined() || x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 ? x : x.to(at::kFloat);
}
inline kernels::Parameter parameter_of(const at::Tensor& x) {
  if (!x.defined()) {
    return {};
  }
  HYDRA_CHECK(x.is_contiguous(), "a kernel's parameter ", x.sizes(), " with strides ", x.strides());
  return {x.const_data_ptr(), element_of(x)};
}

// The tensor itself if its last dimension is contiguous, else a copy.
inline at::Tensor unit_stride(const at::Tensor& x) { return x.stride(-1) == 1 || x.size(-1) == 1 ? x : x.contiguous(); }
// x [N, heads, size] after unit_stride.
inline kernels::ConstHeadRows head_rows(const at::Tensor& x) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  HYDRA_CHECK(x.dim() == 3 && x.stride(0) <= most && x.stride(1) <= most, "kernel rows ", x.sizes(), " with strides ",
              x.strides());
  return {x.const_data_ptr(), x.stride(0), x.stride(1)};
}

inline float* float_pointer(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }

inline at::Tensor scratch_buffer(std::size_t bytes, const at::Tensor& like) {
  return at::empty({static_cast<std::int64_t>(bytes)}, like.options().dtype(at::kByte));
}

inline cudaStream_t current_stream(const at::Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(x.device().index()).stream();
}

}  // namespace hydra::ops
