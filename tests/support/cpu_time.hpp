#pragma once
// Processor time of this process: tests of linear cost must not fail because the machine is busy.

#include <ctime>

namespace hydra::test {

inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace hydra::test
