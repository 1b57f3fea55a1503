#include "hydrahead/io/tensor_slices.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>

#include "hydrahead/base/error.hpp"

namespace hydra::io {
namespace {

std::int64_t offset_of(const SafetensorsFile& file, const std::string& name) {
  const auto found = file.header().metadata.find(name);
  HYDRA_REQUIRE(found != file.header().metadata.end(), file.path().string(), ": no offset of ", name);
  const std::string& text = found->second;
  std::int64_t offset = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), offset);
  HYDRA_REQUIRE(status == std::errc() && end == text.data() + text.size() && offset >= 0, file.path().string(),
                ": the offset of ", name, " is \"", text, "\", expected a number");
  return offset;
}

}  // namespace

void write_slices(const std::filesystem::path& path, const TensorSlices& slices) {
  NamedTensors tensors;
  std::map<std::string, std::string> offsets;
  for (const TensorSlice& slice : slices) {
    HYDRA_CHECK(slice.values.dim() == 1 && offsets.count(slice.name) == 0, "slice ", slice.name);
    tensors.emplace_back(slice.name, slice.values);
    offsets[slice.name] = std::to_string(slice.offset);
  }
  write_safetensors(path, tensors, offsets);
}

SliceReader::SliceReader(const std::vector<std::filesystem::path>& paths) {
  for (const std::filesystem::path& path : paths) {
    files_.push_back(SafetensorsFile::open(path));
    for (const auto& [name, info] : files_.back().header().tensors) {
      HYDRA_REQUIRE(info.shape.size() == 1, path.string(), ": ", name, " has ", info.shape.size(),
                    " dimensions, expected 1");
      const std::int64_t begin = offset_of(files_.back(), name);
      pieces_[name].push_back({begin, begin + info.shape[0], files_.size() - 1});
    }
  }
  for (auto& [name, pieces] : pieces_) {
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    std::int64_t next = 0;
    for (const Piece& piece : pieces) {
      HYDRA_REQUIRE(piece.begin == next, files_[piece.file].path().string(), ": the slice of ", name, " begins at ",
                    piece.begin, ", expected ", next);
      next = piece.end;
    }
  }
}

std::vector<std::string> SliceReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, pieces] : pieces_) {
    names.push_back(name);
  }
  return names;
}

std::int64_t SliceReader::size(const std::string& name) const {
  const auto found = pieces_.find(name);
  return found == pieces_.end() ? -1 : found->second.back().end;
}

at::Tensor SliceReader::read(const std::string& name, std::int64_t begin, std::int64_t end) const {
  HYDRA_REQUIRE(begin >= 0 && begin < end && end <= size(name), "elements ", begin, " to ", end, " of ", name,
                ": found ", size(name));
  std::vector<at::Tensor> parts;
  for (const Piece& piece : pieces_.at(name)) {
    const std::int64_t first = std::max(begin, piece.begin), last = std::min(end, piece.end);
    if (first < last) {
      parts.push_back(files_[piece.file].load(name).narrow(0, first - piece.begin, last - first));
    }
  }
  return at::cat(parts);
}

}  // namespace hydra::io
