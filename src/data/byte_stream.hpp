#pragma once
// Bytes of a file in order, decompressed if its first bytes say gzip, xz or zstd; constant memory.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace hydra::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills as much of `out` as there is; less only at the end. UserError naming the file if its data is damaged or cut.
  virtual std::size_t read(std::span<char> out) = 0;
  // Bytes of the file on disk used so far.
  virtual std::int64_t consumed() const = 0;
};

std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path);

}  // namespace hydra::data
