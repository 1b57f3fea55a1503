#pragma once
// Any bytes as an .idx file; the first eight are the size of its .bin.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "hydrahead/base/error.hpp"
#include "hydrahead/data/token_file.hpp"

namespace hydra::fuzz {

inline int fuzz_token_index(std::span<const std::byte> bytes) {
  std::uint64_t bin_bytes = 0;
  if (bytes.size() < sizeof bin_bytes) {
    return 0;
  }
  std::memcpy(&bin_bytes, bytes.data(), sizeof bin_bytes);
  const auto index = data::parse_token_index(bytes.subspan(sizeof bin_bytes), bin_bytes);
  if (!index) {
    HYDRA_CHECK(!index.error().empty());
    return 0;
  }
  HYDRA_CHECK(index->begin.front() == 0);
  for (std::size_t d = 1; d < index->begin.size(); ++d) {
    HYDRA_CHECK(index->begin[d] >= index->begin[d - 1]);
  }
  HYDRA_CHECK(static_cast<std::uint64_t>(index->begin.back()) * data::bytes_per_token(index->type) == bin_bytes);
  return 0;
}

}  // namespace hydra::fuzz
