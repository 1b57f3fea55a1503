#pragma once
// Files: memory maps, whole-file reads, durable writes, and directories that appear complete or not at all.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace hydra {

namespace fs = std::filesystem;

// Read-only map of a whole file. Move-only; the bytes live as long as the object.
class MappedFile {
 public:
  // Throws UserError naming the path if it cannot be opened or is no regular file.
  static MappedFile open(const fs::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }
  const fs::path& path() const { return path_; }

 private:
  MappedFile() = default;
  fs::path path_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// The whole file as text. Throws UserError naming the path.
std::string read_file(const fs::path& path);

// Writes a temporary file beside `path`, flushes it to disk and renames it into place.
void write_file_atomic(const fs::path& path, std::string_view content);

// Flushes a file or directory to disk.
void sync_path(const fs::path& path);

// A directory that is written as "<target>.tmp" and becomes `target` by one rename in commit(); the destructor
// removes what was not committed. Refuses (UserError) a target that exists and is not empty.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(fs::path target);
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;
  ~AtomicDirectory();

  const fs::path& path() const { return temporary_; }  // write here
  void commit();                                       // fsync of every file, rename, fsync of the parent

 private:
  fs::path target_;
  fs::path temporary_;
  bool committed_ = false;
};

}  // namespace hydra
