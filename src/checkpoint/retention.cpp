#include "hydrahead/checkpoint/retention.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"

namespace hydra::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporary = ".tmp";

// The number of "step-<digits>", or nothing.
std::optional<std::int64_t> step_of(const fs::path& dir) {
  const std::string name = dir.filename().string();
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size() || name.size() > kPrefix.size() + 18 ||
      name.find_first_not_of("0123456789", kPrefix.size()) != std::string::npos) {
    return std::nullopt;
  }
  return std::stoll(name.substr(kPrefix.size()));
}

// A removal that is interrupted leaves a *.tmp entry, never half a checkpoint.
void remove_checkpoint(const fs::path& dir) {
  const fs::path doomed = dir.string() + std::string(kTemporary);
  fs::remove_all(doomed);
  fs::rename(dir, doomed);
  fs::remove_all(doomed);
}

std::string in_gigabytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f GB", static_cast<double>(bytes) * 1e-9);
  return text;
}

}  // namespace

std::vector<fs::path> list_checkpoints(const fs::path& root) {
  std::vector<fs::path> found;
  if (!fs::is_directory(root)) {
    return found;
  }
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_directory() && step_of(entry.path())) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) { return *step_of(a) < *step_of(b); });
  return found;
}

NewestCheckpoint find_newest(const fs::path& root) {
  NewestCheckpoint result;
  const auto all = list_checkpoints(root);
  for (auto dir = all.rbegin(); dir != all.rend(); ++dir) {
    const std::string fault = checkpoint_fault(*dir);
    if (fault.empty()) {
      result.checkpoint = open_checkpoint(*dir);
      return result;
    }
    result.skipped.push_back(dir->string() + ": " + fault);
  }
  return result;
}

std::vector<std::string> set_aside_after(const fs::path& root, std::int64_t step) {
  std::vector<std::string> done;
  if (!fs::is_directory(root)) {
    return done;
  }
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kTemporary)) {
      leftovers.push_back(entry.path());
    }
  }
  for (const fs::path& leftover : leftovers) {
    fs::remove_all(leftover);
    done.push_back("removed " + leftover.string() + ", left by an interrupted save");
  }
  for (const fs::path& dir : list_checkpoints(root)) {
    if (*step_of(dir) > step) {
      const fs::path aside = dir.string() + ".set-aside";
      fs::remove_all(aside);
      fs::rename(dir, aside);
      done.push_back("renamed " + dir.string() + " to " + aside.filename().string());
    }
  }
  return done;
}

void prune(const fs::path& root, std::int64_t keep) {
  std::int64_t complete = 0;
  const auto all = list_checkpoints(root);
  for (auto dir = all.rbegin(); dir != all.rend(); ++dir) {
    if (complete >= keep) {
      remove_checkpoint(*dir);
    } else if (fs::exists(*dir / "manifest.json")) {
      ++complete;
    }
  }
}

void require_space(const fs::path& dir, std::uint64_t bytes, const std::string& purpose) {
  fs::path existing = fs::absolute(dir);
  while (!fs::is_directory(existing)) {
    existing = existing.parent_path();
  }
  const std::uint64_t available = fs::space(existing).available;
  HYDRA_REQUIRE(available >= bytes, existing.string(), ": ", purpose, " needs ", in_gigabytes(bytes), ", found ",
                in_gigabytes(available), " free");
  std::string trial = (existing / ".hydrahead-space-XXXXXX").string();
  const int file = ::mkstemp(trial.data());
  HYDRA_REQUIRE(file >= 0, existing.string(), ": ", purpose, ": cannot be written: ", std::strerror(errno));
  ::unlink(trial.c_str());
  const int status = bytes == 0 ? 0 : ::fallocate(file, 0, 0, static_cast<off_t>(bytes));
  const int code = status == 0 ? 0 : errno;
  ::close(file);
  // File systems without fallocate say so: the check of free space has to do there.
  HYDRA_REQUIRE(code == 0 || code == EOPNOTSUPP || code == EINTR, existing.string(), ": ", purpose, " needs ",
                in_gigabytes(bytes), ", which cannot be allocated: ", std::strerror(code));
}

}  // namespace hydra::checkpoint
