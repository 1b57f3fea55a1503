#include "hydrahead/base/files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "hydrahead/base/error.hpp"

namespace hydra {
namespace {

class FileDescriptor {
 public:
  FileDescriptor(const fs::path& path, int flags, mode_t mode = 0644)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::string last_error() { return std::strerror(errno); }

}  // namespace

MappedFile MappedFile::open(const fs::path& path) {
  const FileDescriptor file(path, O_RDONLY);
  HYDRA_REQUIRE(file.ok(), path.string(), ": cannot be opened: ", last_error());
  struct stat status {};
  HYDRA_REQUIRE(::fstat(file.get(), &status) == 0, path.string(), ": ", last_error());
  HYDRA_REQUIRE(S_ISREG(status.st_mode), path.string(), ": found no regular file, expected one");
  MappedFile mapped;
  mapped.path_ = path;
  mapped.size_ = static_cast<std::size_t>(status.st_size);
  if (mapped.size_ > 0) {
    void* data = ::mmap(nullptr, mapped.size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    HYDRA_REQUIRE(data != MAP_FAILED, path.string(), ": cannot be mapped: ", last_error());
    mapped.data_ = data;
  }
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

std::string read_file(const fs::path& path) {
  const MappedFile file = MappedFile::open(path);
  return std::string(file.text());
}

void sync_path(const fs::path& path) {
  const FileDescriptor file(path, O_RDONLY);
  HYDRA_CHECK(file.ok() && ::fsync(file.get()) == 0, path.string(), ": cannot be flushed: ", last_error());
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  const fs::path temporary = path.string() + ".tmp";
  {
    const FileDescriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    HYDRA_REQUIRE(file.ok(), temporary.string(), ": cannot be written: ", last_error());
    while (!content.empty()) {
      const ssize_t written = ::write(file.get(), content.data(), content.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      HYDRA_CHECK(written > 0, temporary.string(), ": cannot be written: ", last_error());
      content.remove_prefix(static_cast<std::size_t>(written));
    }
    HYDRA_CHECK(::fsync(file.get()) == 0, temporary.string(), ": cannot be flushed: ", last_error());
  }
  fs::rename(temporary, path);
  sync_path(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

AtomicDirectory::AtomicDirectory(fs::path target) : target_(std::move(target)) {
  while (!target_.has_filename() && target_.has_parent_path()) {
    target_ = target_.parent_path();  // "out/" names the folder "out"
  }
  HYDRA_REQUIRE(!fs::exists(target_) || (fs::is_directory(target_) && fs::is_empty(target_)), target_.string(),
                ": already holds something; expected a new or empty directory");
  temporary_ = target_.string() + ".tmp";
  fs::remove_all(temporary_);
  std::error_code code;
  fs::create_directories(temporary_, code);
  HYDRA_REQUIRE(!code, temporary_.string(), ": cannot be created: ", code.message());
}

AtomicDirectory::~AtomicDirectory() {
  if (!committed_) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }
}

void AtomicDirectory::commit() {
  for (const auto& entry : fs::recursive_directory_iterator(temporary_)) {
    sync_path(entry.path());
  }
  sync_path(temporary_);
  fs::rename(temporary_, target_);  // replaces an empty directory
  committed_ = true;
  sync_path(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace hydra
