#include "hydrahead/base/error.hpp"

namespace hydra::detail {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw Error(concat(file, ":", line, ": check failed: ", condition, message.empty() ? "" : ": ", message));
}

}  // namespace hydra::detail
