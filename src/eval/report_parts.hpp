#pragma once
// What the Markdown and the HTML form of a run report share: columns of all states, cells by task and length.

#include <optional>
#include <string>
#include <vector>

#include "hydrahead/eval/report.hpp"

namespace hydra::eval {

// Lengths and tasks of any state, ascending.
std::vector<std::int64_t> report_lengths(const RunReport& report);
std::vector<data::NiahTask> report_tasks(const RunReport& report);

// Null where the state was not evaluated on it at all.
const NiahCell* find_cell(const StateResult& state, data::NiahTask task, std::int64_t length);
const NiahMean* find_mean(const StateResult& state, std::int64_t length);  // over all tasks

// States that hold the same decode state share a row: "converted, align".
struct CacheRow {
  std::string name;
  model::CacheBytes cache;
};
std::vector<CacheRow> cache_rows(const RunReport& report);
std::int64_t cache_bytes_at(const model::CacheBytes& cache, std::int64_t length);

std::vector<PplResult> ppl_results(const RunReport& report);

// Line ends become "; ".
std::string one_line(std::string text);

// The page, and the file for programs.
std::string report_html(const RunReport& report);
Json report_json(const RunReport& report);

// "24 samples a cell; base prompt, seed 42, ...": how NIAH was run. Empty without NIAH.
std::string niah_conditions(const RunReport& report);

}  // namespace hydra::eval
