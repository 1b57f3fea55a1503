#pragma once
// safetensors files with torch tensors: memory-mapped reader and writer. The header's rules: safetensors_header.hpp.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hydrahead/base/files.hpp"
#include "hydrahead/io/safetensors_header.hpp"

namespace hydra::io {

class SafetensorsFile {
 public:
  // UserError with file and cause; a Git LFS pointer file is named as such.
  static SafetensorsFile open(const std::filesystem::path& path);
  const SafetensorsHeader& header() const { return *header_; }
  bool contains(const std::string& name) const { return header_->tensors.count(name) > 0; }
  // CPU tensor of the stored type. Aligned data is a view that keeps the map alive, so it must not be written to;
  // unaligned data is copied.
  at::Tensor load(const std::string& name) const;
  const std::filesystem::path& path() const { return bytes_->path(); }

 private:
  std::shared_ptr<const MappedFile> bytes_;
  std::shared_ptr<const SafetensorsHeader> header_;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Writes one file: data sorted by alignment, then name; header padded to 8 bytes; flushed to disk. Tensors may live on
// any device.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace hydra::io
