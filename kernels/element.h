#pragma once
// Element type of a kernel's operands.

#include <cstdint>

namespace hydra::kernels {

enum class Element : std::int32_t { fp32, bf16 };

}  // namespace hydra::kernels
