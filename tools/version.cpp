#include "version.hpp"

namespace hydra::tools {

std::string version_text() {
  return "hydrahead " HYDRA_VERSION " (commit " HYDRA_COMMIT
         ")\n"
         "torch     " HYDRA_TORCH_BUILD
         "\n"
         "CUDA      " HYDRA_CUDA_BUILD
         "\n"
         "NCCL      " HYDRA_NCCL_BUILD;
}

}  // namespace hydra::tools
