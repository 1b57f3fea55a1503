// See the header; PyTorch's pinned allocator keeps the buffer until the copy is done.
#include "index_tensor.hpp"

#include <ATen/ATen.h>

#include <algorithm>

namespace hydra::ops {

at::Tensor index_tensor(at::IntArrayRef values, const at::Device& device) {
  auto host = at::empty({static_cast<std::int64_t>(values.size())},
                        at::TensorOptions(at::kLong).pinned_memory(device.is_cuda()));
  std::copy(values.begin(), values.end(), host.mutable_data_ptr<std::int64_t>());
  return host.to(device, /*non_blocking=*/true);
}

}  // namespace hydra::ops
