#include "hydrahead/base/directory_claim.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "hydrahead/base/error.hpp"

namespace hydra {

DirectoryClaim::DirectoryClaim(fs::path path) : path_(std::move(path)) {
  std::error_code code;
  fs::create_directories(path_, code);
  HYDRA_REQUIRE(!code, path_.string(), ": cannot be made a directory: ", code.message());
  const auto refuse_errno = [&](const char* what) {
    const std::error_code error(errno, std::generic_category());
    fs::remove(path_, code);
    fail_request(path_.string(), ": ", what, ": ", error.message());
  };
  if (::access(path_.c_str(), W_OK | X_OK) != 0) {
    refuse_errno("cannot be written");
  }
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) {
    refuse_errno("cannot be opened");
  }
  // Some network file systems know no locks: there the claim is only that the directory can be written.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    fail_request(path_.string(), ": another process writes its results here; expected a directory of this run's own");
  }
}

DirectoryClaim::~DirectoryClaim() {
  std::error_code filled;
  fs::remove(path_, filled);  // only an empty one
  ::close(descriptor_);
}

}  // namespace hydra
