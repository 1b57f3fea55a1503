#pragma once
// `hydrahead select`: a teacher's heads scored on probes, fused, and made into a head plan (method.md section 3).

#include <filesystem>
#include <string>

#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/io/hf_model_dir.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/train/run_config.hpp"

namespace hydra::train {

struct SelectionOptions {
  std::filesystem::path out;     // new, empty, or of a selection that was stopped: claimed for the whole run
  std::filesystem::path scores;  // scores.json of an earlier selection: nothing is scored again
  std::string model_name;        // in reports
  Json identity;                 // of model and precision: a stopped selection goes on only with the same
  bool knockout = false;         // also check the ranking by removing heads
  bool analyse = false;          // also write what the heads do
};

// Writes heads.yaml, scores.json, effects.csv, scores.md and report.html into `out`, and knockout.* and analysis.* if
// asked for. Without a rule in the config: global_interp_c, the method's default. Returns what is to be printed (rank
// 0).
std::string run_selection(const RunConfig& config, const io::HfModelDir& teacher, const model::LoadOptions& load,
                          const SelectionOptions& options, dist::Communicator& communicator);

}  // namespace hydra::train
