#pragma once
// The tables and sentences that every form of the score report shares.

#include <string>
#include <vector>

#include "hydrahead/select/score_report.hpp"

namespace hydra::select {

struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

std::string number_text(double value, const char* format = "%.3f");

// The first `count` heads of the ranking, each with score, kappa and role of every capability.
TextTable ranking_table(const ScoreReport& report, std::size_t count);
TextTable probe_table(const ScoreReport& report);

// What decided the places of the plan, with a warning if it was mostly ties; capabilities left out.
std::string slots_text(const ScoreReport& report);

std::string score_page(const ScoreReport& report);  // report.html

}  // namespace hydra::select
