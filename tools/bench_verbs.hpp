#pragma once
// What the benchmarks share, and those beside `bench step`.

#include <CLI/CLI.hpp>
#include <string>

#include "hydrahead/base/json.hpp"

namespace hydra::tools {

// Prints a record's text under the versions; writes the record to `json` unless that is empty.
void report_bench(Json record, const std::string& text, const std::string& json);

void add_bench_gdn(CLI::App& bench);
void add_bench_heads(CLI::App& bench);

}  // namespace hydra::tools
