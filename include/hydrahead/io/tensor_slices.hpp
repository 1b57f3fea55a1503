#pragma once
// Tensors that several ranks write together, each a contiguous range of their elements, and that any number of ranks
// reads back in other ranges. A slice is a 1-D tensor of a safetensors file whose metadata holds its offset.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "hydrahead/io/safetensors.hpp"

namespace hydra::io {

struct TensorSlice {
  std::string name;
  std::int64_t offset = 0;  // elements
  at::Tensor values;        // [n], on any device
};
using TensorSlices = std::vector<TensorSlice>;

// At most one slice of a tensor in a file.
void write_slices(const std::filesystem::path& path, const TensorSlices& slices);

class SliceReader {
 public:
  // UserError unless the files hold each of their tensors from its first element on, without holes and overlaps.
  explicit SliceReader(const std::vector<std::filesystem::path>& paths);

  std::vector<std::string> names() const;
  std::int64_t size(const std::string& name) const;  // elements; -1 if there is no such tensor
  // Elements [begin, end) on the CPU, from whatever files hold them.
  at::Tensor read(const std::string& name, std::int64_t begin, std::int64_t end) const;

 private:
  struct Piece {
    std::int64_t begin, end;
    std::size_t file;
  };
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::vector<Piece>> pieces_;  // ascending
};

}  // namespace hydra::io
