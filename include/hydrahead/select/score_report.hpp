#pragma once
// What a selection leaves behind for its reader: scores.json, scores.md and report.html.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/model/head_plan.hpp"
#include "hydrahead/model/head_scores.hpp"
#include "hydrahead/select/fusion.hpp"

namespace hydra::select {

struct ScoreReport {
  std::string model_name;
  Json settings;                     // what the scores were made with; null: they came from a file
  std::vector<ProbeEffects> probes;  // empty with it
  FusedScores fused;                 // likewise
  model::HeadScores scores;
  model::HeadPlan plan;
};

// By which key the chosen heads were told from those that were not. A plan that ties filled says little about its heads
// (method.md 3.5).
struct SlotCount {
  std::int64_t by_score = 0;    // the score is above that of every head that was not chosen
  std::int64_t above_zero = 0;  // chosen heads with a score above 0
  std::int64_t total = 0;
};
SlotCount count_slots(const model::HeadScores& scores, const model::HeadPlan& plan);

// Writes the files into `dir` and returns the text of the terminal: the first heads of the ranking, and the slots.
std::string write_score_report(const std::filesystem::path& dir, const ScoreReport& report);

}  // namespace hydra::select
