// See the header. Index tensors are built on the host, once a call.
#include "gated_delta_layout.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "hydrahead/base/error.hpp"
#include "index_tensor.hpp"

namespace hydra::ops {
namespace {

void fill_rows(ChunkBlock& block, const Sequences& sequences, const std::vector<std::int64_t>& order,
               const std::vector<std::int64_t>& active, const at::Device& device) {
  std::vector<std::int64_t> rows, slots;
  rows.reserve(static_cast<std::size_t>(block.chunks * kChunk));
  for (std::int64_t step = block.first_step; step < block.first_step + block.steps; ++step) {
    for (std::int64_t i = 0; i < active[static_cast<std::size_t>(step)]; ++i) {
      const auto s = order[static_cast<std::size_t>(i)];
      const auto begin = sequences.offsets[s] + step * kChunk;
      for (std::int64_t r = begin; r < begin + kChunk; ++r) {
        const bool valid = r < sequences.offsets[s + 1];
        if (valid) {
          slots.push_back(static_cast<std::int64_t>(rows.size()));
        }
        rows.push_back(valid ? r : 0);
      }
    }
  }
  block.rows = index_tensor(rows, device);
  if (slots.size() < rows.size()) {
    block.slots = index_tensor(slots, device);
    block.padding = at::ones({static_cast<std::int64_t>(rows.size())}, block.rows.options().dtype(at::kBool));
    block.padding.index_fill_(0, block.slots, false);
  }
}

}  // namespace

c10::intrusive_ptr<ChunkLayout> make_chunk_layout(const Sequences& sequences, const at::Device& device,
                                                  std::int64_t block_chunks) {
  const auto count = sequences.count();
  auto layout = c10::make_intrusive<ChunkLayout>();
  layout->sequence_count = count;
  const auto chunks_of = [&](std::int64_t s) { return (sequences.length(s) + kChunk - 1) / kChunk; };
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return chunks_of(a) > chunks_of(b); });
  layout->ordered = std::is_sorted(order.begin(), order.end());
  if (!layout->ordered) {
    layout->order = index_tensor(order, device);
  }
  layout->regular = count * sequences.max_length == sequences.rows() && sequences.max_length % kChunk == 0;
  layout->active.assign(static_cast<std::size_t>((sequences.max_length + kChunk - 1) / kChunk), 0);
  for (std::int64_t s = 0; s < count; ++s) {
    for (std::int64_t c = 0; c < chunks_of(s); ++c) {
      ++layout->active[static_cast<std::size_t>(c)];
    }
  }
  ChunkBlock block;
  for (std::int64_t step = 0; step < layout->steps(); ++step) {
    const auto chunks = layout->active[static_cast<std::size_t>(step)];
    if (block.steps > 0 && block.chunks + chunks > block_chunks) {
      layout->blocks.push_back(block);
      block = {.first_step = step, .first_chunk = block.first_chunk + block.chunks};
    }
    ++block.steps;
    block.chunks += chunks;
  }
  layout->blocks.push_back(block);
  if (!layout->regular) {
    for (auto& b : layout->blocks) {
      fill_rows(b, sequences, order, layout->active, device);
    }
  }
  return layout;
}

at::Tensor pack_rows(const at::Tensor& x, const ChunkLayout& layout, const ChunkBlock& block, at::ScalarType type,
                     std::int64_t repeat) {
  const auto heads = x.size(1);
  const auto width = x.size(2);
  at::Tensor chunks;  // [chunks, C, H, d]
  if (layout.regular) {
    chunks = x.reshape({layout.sequence_count, layout.steps(), kChunk, heads, width})
                 .narrow(1, block.first_step, block.steps)
                 .permute({1, 0, 3, 2, 4});
    chunks = repeat == 1
                 ? chunks.unsqueeze(3)
                 : chunks.unsqueeze(3).expand({block.steps, layout.sequence_count, heads, repeat, kChunk, width});
  } else {
    auto rows = x.index_select(0, block.rows);
    if (block.padding.defined()) {
      rows.masked_fill_(block.padding.view({-1, 1, 1}), 0);
    }
    chunks = rows.view({block.chunks, kChunk, heads, width}).permute({0, 2, 1, 3}).unsqueeze(2);
    chunks = chunks.expand({block.chunks, heads, repeat, kChunk, width});
  }
  return chunks.to(type).contiguous().view({block.chunks * heads * repeat, kChunk, width});
}

void unpack_rows(const at::Tensor& y, at::Tensor& out, const ChunkLayout& layout, const ChunkBlock& block) {
  const auto heads = out.size(1);
  const auto width = out.size(2);
  if (layout.regular) {
    out.view({layout.sequence_count, layout.steps(), kChunk, heads, width})
        .narrow(1, block.first_step, block.steps)
        .copy_(y.view({block.steps, layout.sequence_count, heads, kChunk, width}).permute({1, 0, 3, 2, 4}));
    return;
  }
  const auto rows = y.view({block.chunks, heads, kChunk, width})
                        .permute({0, 2, 1, 3})
                        .to(out.scalar_type())
                        .reshape({block.chunks * kChunk, heads, width});
  if (block.slots.defined()) {
    out.index_copy_(0, block.rows.index_select(0, block.slots), rows.index_select(0, block.slots));
  } else {
    out.index_copy_(0, block.rows, rows);
  }
}

}  // namespace hydra::ops
