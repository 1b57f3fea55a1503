#pragma once
// The report at the end of a run: every evaluated state side by side (NIAH by length, cache bytes, loss by position),
// training speeds, the head plan. A JSON file, Markdown, and one self-contained HTML page.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "hydrahead/eval/evaluate.hpp"

namespace hydra::eval {

struct StageSpeed {
  std::string stage;
  std::int64_t steps = 0, tokens = 0, context = 0;
  double seconds = 0;             // of training alone: no evaluation, no checkpoints
  double tokens_per_second = 0;   // all ranks
  double teraflops = 0, mfu = 0;  // 0: unknown
  std::int64_t peak_memory = 0;   // bytes; 0: unknown
  double first_loss = 0, last_loss = 0;
};

struct RunReport {
  std::string title;                                       // "qwen3-nano to HydraHead"
  std::vector<std::pair<std::string, std::string>> facts;  // teacher, device, head rule, versions, ...: shown in order
  std::int64_t heads = 0;                                  // a layer
  std::vector<std::vector<std::int64_t>> fa_heads;         // the plan, a list a layer
  std::vector<StateResult> states;  // in the order of the run; "teacher" first if it was evaluated
  std::vector<StageSpeed> stages;
  std::string config_yaml;  // the resolved config
};

// Writes <dir>/report.json, report.md and report.html.
void write_run_report(const std::filesystem::path& dir, const RunReport& report);

// The Markdown tables, for the terminal.
std::string run_report_tables(const RunReport& report);

}  // namespace hydra::eval
