#include "hydrahead/train/micro_batch.hpp"

#include <ATen/ATen.h>

#include "hydrahead/base/error.hpp"

namespace hydra::train {
namespace {

// The values of all rows end to end, [N] int64 on the device.
at::Tensor joined(std::span<const data::Row> rows, std::vector<std::int32_t> data::Row::*values,
                  const c10::Device& device) {
  std::int64_t count = 0;
  for (const data::Row& row : rows) {
    count += static_cast<std::int64_t>((row.*values).size());
  }
  // Pinned memory lets the copy overlap with the device's work; the caching host allocator keeps it until the copy is
  // done.
  at::Tensor host = at::empty({count}, at::TensorOptions(at::kLong).pinned_memory(device.is_cuda()));
  auto* out = host.data_ptr<std::int64_t>();
  for (const data::Row& row : rows) {
    for (const std::int32_t value : row.*values) {
      *out++ = value;
    }
  }
  return host.to(device, /*non_blocking=*/true);
}

}  // namespace

DeviceBatch device_batch(std::span<const data::Row> rows, const c10::Device& device) {
  std::vector<std::int64_t> lengths;
  for (const data::Row& row : rows) {
    HYDRA_CHECK(row.ids.size() == row.labels.size(), "a row has ", row.ids.size(), " ids and ", row.labels.size(),
                " labels");
    lengths.insert(lengths.end(), row.lengths.begin(), row.lengths.end());
  }
  return {joined(rows, &data::Row::ids, device), joined(rows, &data::Row::labels, device),
          ops::make_sequences(lengths, device)};
}

std::vector<std::uint64_t> rows_of_rank(std::uint64_t first, std::int64_t global_batch, int rank, int ranks) {
  std::vector<std::uint64_t> indices;
  for (std::int64_t i = rank; i < global_batch; i += ranks) {
    indices.push_back(first + static_cast<std::uint64_t>(i));
  }
  return indices;
}

}  // namespace hydra::train
