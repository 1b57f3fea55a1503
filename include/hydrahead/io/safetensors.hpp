#pragma once
// safetensors: header parser (never throws on bad bytes), memory-mapped reader, writer. The rules enforced are those
// of huggingface/safetensors' README: no duplicate names, no holes, no overlap, the whole buffer indexed.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hydrahead/base/expected.hpp"

namespace hydra::io {

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

// Checks everything that can be checked without reading data; `file` is the whole file.
Expected<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file);

class SafetensorsFile {
 public:
  // UserError with file and cause; a Git LFS pointer file is named as such.
  static SafetensorsFile open(const std::filesystem::path& path);
  const SafetensorsHeader& header() const { return *header_; }
  bool contains(const std::string& name) const { return header_->tensors.count(name) > 0; }
  // CPU tensor of the stored type. Aligned data is a view that keeps the map alive; unaligned data is copied.
  at::Tensor load(const std::string& name) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const class MappedBytes> bytes_;
  std::shared_ptr<const SafetensorsHeader> header_;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Writes one file: data sorted by alignment, then name; header padded to 8 bytes; flushed to disk. Tensors may live on any device.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace hydra::io
