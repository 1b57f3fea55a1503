#pragma once
// The header of a safetensors file, parsed without torch and without throwing on bad bytes. The rules are those of
// huggingface/safetensors' README: no duplicate names, no holes, no overlap, the whole buffer indexed.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/base/expected.hpp"

namespace hydra::io {

inline constexpr std::uint64_t max_header_bytes = 100'000'000;

struct TensorInfo {
  std::string dtype;                 // as stored: "BF16", "F32", ...
  std::vector<std::int64_t> shape;   // [] is a scalar
  std::uint64_t begin = 0, end = 0;  // bytes, relative to the data buffer
};

struct SafetensorsHeader {
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  std::uint64_t data_start = 0;  // file offset of the data buffer
};

// Bytes of one element, 0 for a type that we do not know.
std::uint64_t element_bytes(std::string_view dtype);

// Checks everything that can be checked without reading data; `file` is the whole file.
Expected<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file);

// model.safetensors.index.json: tensor -> file name. File names are plain names inside the directory.
Expected<std::map<std::string, std::string>> parse_safetensors_index(std::string_view text);

}  // namespace hydra::io
