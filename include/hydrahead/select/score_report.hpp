#pragma once
// What a selection leaves behind for its reader: scores.json, effects.csv, scores.md and report.html.

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
  model::HeadScores scores;          // of the same shape as the plan
  model::HeadPlan plan;
};

// Writes into `dir`:
//   scores.json  model::to_json(scores), and beside it what they were made of: settings, capabilities, probes, slots;
//                written last, so that its presence says that all is there
//   effects.csv  a line a pair, head and role: clipped and unclipped effect (not for scores from a file)
//   scores.md    the ranking of all heads, the probes, and what decided the places of the plan
//   report.html  the same, self-contained, with heat maps [layer, head] on which the heads of the plan are framed
// and returns the text for the terminal: the first heads of the ranking, the probes and the slots.
std::string write_score_report(const std::filesystem::path& dir, const ScoreReport& report);

}  // namespace hydra::select
