#pragma once
// A directory of results while one process writes it.

#include "hydrahead/base/files.hpp"

namespace hydra {

// Makes the directory where it is missing and locks it until the end of the object or of the process, however that
// ends: a path that cannot be written or that another process writes fails before hours of work, not after them. The
// destructor removes the directory if it is empty: a refusal leaves nothing behind.
class DirectoryClaim {
 public:
  // UserError naming the path: it cannot be made or written, or another process has claimed it.
  explicit DirectoryClaim(fs::path path);
  DirectoryClaim(const DirectoryClaim&) = delete;
  DirectoryClaim& operator=(const DirectoryClaim&) = delete;
  ~DirectoryClaim();

 private:
  fs::path path_;
  int descriptor_ = -1;
};

}  // namespace hydra
