#pragma once
// The chunk layout of the gated delta rule: every sequence is cut into chunks of C = 64 rows (the last one padded),
// sequences are ordered by number of chunks, most first, and chunks are stored time-major:
//   [chunk 0 of all sequences][chunk 1 of those that have one]...
// so that step c of the scan works on one contiguous slice, and its active states are a prefix of the states' array.
// A block is a range of steps, the unit of the algorithm's workspace.

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <vector>

#include "hydrahead/ops/sequences.hpp"

namespace hydra::ops {

inline constexpr std::int64_t kChunk = 64;

struct ChunkBlock {
  std::int64_t first_step = 0, steps = 0;
  std::int64_t first_chunk = 0, chunks = 0;  // slice of the time-major chunk order
  at::Tensor rows = {};                      // [chunks C] flat row of each slot (0 at padding)
  at::Tensor padding = {};                   // [chunks C] bool, true at padding; undefined when there is none
  at::Tensor slots = {};  // [valid rows of the block] slots that hold a row; undefined when there is no padding
};

struct ChunkLayout : torch::CustomClassHolder {
  std::int64_t sequence_count = 0;
  std::vector<std::int64_t> active;  // [steps] number of sequences with a chunk at this step
  bool ordered = true;               // sequences stand in their own order
  at::Tensor order;                  // [S] sequence at each position of the ordering, unless `ordered`
  bool regular = false;              // equal lengths, whole chunks: packing is a permutation
  std::int64_t steps() const { return static_cast<std::int64_t>(active.size()); }
  std::vector<ChunkBlock> blocks;
};

// Blocks hold at most max(chunks of one step, `block_chunks`) chunks.
c10::intrusive_ptr<ChunkLayout> make_chunk_layout(const Sequences& sequences, const at::Device& device,
                                                  std::int64_t block_chunks);

// x [N, H, d] -> [chunks H', C, d] of a block in `type`, zeros at padding; every head repeated H'/H times.
at::Tensor pack_rows(const at::Tensor& x, const ChunkLayout& layout, const ChunkBlock& block, at::ScalarType type,
                     std::int64_t repeat = 1);
// The inverse for a block: y [chunks H, C, d] into the block's rows of out [N, H, d], converted to its type.
void unpack_rows(const at::Tensor& y, at::Tensor& out, const ChunkLayout& layout, const ChunkBlock& block);

}  // namespace hydra::ops
