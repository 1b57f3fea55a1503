#pragma once
// What `--version` prints: version, commit, torch, CUDA and NCCL versions, the architectures compiled in.

#include <string>

namespace hydra::tools {

std::string version_text();

}  // namespace hydra::tools
