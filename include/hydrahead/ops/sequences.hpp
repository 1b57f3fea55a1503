#pragma once
// How the N rows of a flat batch are cut into sequences. Every op takes flat rows [N, ...] and a Sequences: packed
// documents, batches of unequal lengths and single prompts are the same case, and no path needs padding.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hydra::ops {

struct Sequences {
  std::vector<std::int64_t> offsets;  // host, S+1 ascending row offsets from 0 to N; no empty sequence
  std::vector<std::int64_t> start;    // [S] position of each sequence's first row (0 unless a cache precedes it)
  at::Tensor offsets_device;          // [S+1] int32 on the rows' device
  at::Tensor positions;               // [N] int64, 0-based position in the document, on the rows' device
  std::int64_t max_length = 0;

  std::int64_t count() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t rows() const { return offsets.back(); }
  std::int64_t length(std::int64_t s) const { return offsets[s + 1] - offsets[s]; }
};

// `lengths` may hold zeros: they are dropped. `start` is empty (all zero) or one value a length.
Sequences make_sequences(const std::vector<std::int64_t>& lengths, const at::Device& device,
                         const std::vector<std::int64_t>& start = {});

}  // namespace hydra::ops
