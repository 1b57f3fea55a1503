#pragma once
// Index tensors that are made on the host for one call.

#include <ATen/core/Tensor.h>

namespace hydra::ops {

// int64 values on `device`. A GPU gets them through pinned memory, so that the host does not wait for the device.
at::Tensor index_tensor(at::IntArrayRef values, const at::Device& device);

}  // namespace hydra::ops
