#pragma once
// Any bytes as a safetensors file: refused with a reason, or a header whose tensors cover the data exactly.

#include <span>

#include "hydrahead/base/error.hpp"
#include "hydrahead/io/safetensors_header.hpp"

namespace hydra::fuzz {

inline int fuzz_safetensors_header(std::span<const std::byte> bytes) {
  const auto header = io::parse_safetensors_header(bytes);
  if (!header) {
    HYDRA_CHECK(!header.error().empty());
    return 0;
  }
  std::uint64_t covered = 0;
  for (const auto& [name, info] : header->tensors) {
    std::uint64_t size = io::element_bytes(info.dtype);
    for (const std::int64_t extent : info.shape) {
      size *= static_cast<std::uint64_t>(extent);
    }
    HYDRA_CHECK(info.end - info.begin == size && header->data_start + info.end <= bytes.size(), name);
    covered += size;
  }
  HYDRA_CHECK(header->data_start + covered == bytes.size());
  return 0;
}

}  // namespace hydra::fuzz
