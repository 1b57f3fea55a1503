#pragma once
// Rows of the data module -> a flat micro-batch on the device, and how a global batch is cut into them.

#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <vector>

#include "hydrahead/data/batch.hpp"
#include "hydrahead/train/stage_loss.hpp"

namespace hydra::train {

DeviceBatch device_batch(std::span<const data::Row> rows, const c10::Device& device);

// Indices of the rows of a global batch that one rank reads: r, r + R, ... of the rows from `first`.
std::vector<std::uint64_t> rows_of_rank(std::uint64_t first, std::int64_t global_batch, int rank, int ranks);

}  // namespace hydra::train
