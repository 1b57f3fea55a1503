#pragma once
// Any bytes as model.safetensors.index.json: refused, or a map to file names that stay inside the directory.

#include <filesystem>
#include <span>

#include "hydrahead/base/error.hpp"
#include "hydrahead/io/safetensors_header.hpp"

namespace hydra::fuzz {

inline int fuzz_safetensors_index(std::span<const std::byte> bytes) {
  const auto index = io::parse_safetensors_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!index) {
    HYDRA_CHECK(!index.error().empty());
    return 0;
  }
  HYDRA_CHECK(!index->empty());
  for (const auto& [tensor, file] : *index) {
    HYDRA_CHECK(std::filesystem::path(file).filename() == file && file != ".." && file != ".", file);
  }
  return 0;
}

}  // namespace hydra::fuzz
