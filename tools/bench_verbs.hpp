#pragma once
// The benchmarks beside `bench step`.

#include <CLI/CLI.hpp>

namespace hydra::tools {

void add_bench_gdn(CLI::App& bench);

}  // namespace hydra::tools
