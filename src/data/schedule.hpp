#pragma once
// Which row of which source comes i-th, in closed form: nothing is remembered, so a resume starts anywhere at once.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydra::data {

// Rows come in blocks; each block has every source's exact share (at least one row) in an order drawn for the block.
// The block is the smallest of at most 1000 rows in which all shares are whole, else 1000 rows with shares rounded to
// 1/1000.
class MixtureSchedule {
 public:
  MixtureSchedule(const std::vector<double>& weights, std::uint64_t seed);  // weights > 0

  struct Pick {
    std::size_t source;
    std::uint64_t ordinal;  // rows of this source before this one
  };
  Pick pick(std::uint64_t row) const;
  const std::vector<std::uint32_t>& quotas() const { return quotas_; }  // rows of each source in a block

 private:
  std::uint64_t seed_;
  std::vector<std::uint32_t> quotas_;
  std::vector<std::uint32_t> block_;  // each source as often as its quota says
};

// The index-th value of a pseudo-random permutation of [0, n) that belongs to (seed, epoch): a Feistel network over
// Philox whose values outside the range are sent through again.
std::uint64_t permuted(std::uint64_t index, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);

}  // namespace hydra::data
