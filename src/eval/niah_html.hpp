#pragma once
// Pictures and the page of one NIAH summary.

#include <cstddef>
#include <string>

#include "hydrahead/eval/niah_summary.hpp"

namespace hydra::eval {

std::string niah_tasks_svg(const NiahSummary& summary);                    // task x length
std::string niah_depth_svg(const NiahSummary& summary, std::size_t task);  // needle depth x length
std::string niah_html_table(const NiahSummary& summary);
std::string niah_html(const NiahSummary& summary);  // report.html

// "24 samples, 95% interval 86.2..100; ..." or the reason for a missing cell.
std::string cell_title(const NiahCell& cell);

}  // namespace hydra::eval
