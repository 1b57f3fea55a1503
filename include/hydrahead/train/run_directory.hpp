#pragma once
// The directory of a run, and which settings may change when it is continued:
//   config.resolved.yaml           the whole config; a run is continued only with the same deciding settings
//   converted/                     the hybrid as initialised, with heads.yaml and conversion.json
//   <stage>/step-NNNNNNNNNN/       checkpoints; the last one of a finished stage holds the fp32 weights without moments
//   <stage>/final/                 the stage's result as an HF-style directory in the teacher's storage type
//   <stage>/tensors.json           trained and frozen tensors
//   eval/<phase>/                  results after convert, align, ...
//   metrics.jsonl, metrics.prom, tensorboard/, documents.rank<r>.jsonl
//   report.json, report.md, report.html

#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/train/run_config.hpp"

namespace hydra::train {

struct RunDirectory {
  std::filesystem::path root;
  std::filesystem::path config_file() const { return root / "config.resolved.yaml"; }
  std::filesystem::path converted() const { return root / "converted"; }
  std::filesystem::path stage(const std::string& name) const { return root / name; }
  std::filesystem::path final_model(const std::string& name) const { return root / name / "final"; }
  std::filesystem::path evaluation(const std::string& phase) const { return root / "eval" / phase; }
};

// The settings that decide the numbers of `stage`, as YAML: everything but where and how often things are written, the
// device, the number of ranks, micro-batches, evaluation, and later stages. stage "": those of the conversion.
std::string deciding_settings(const RunConfig& config, const std::string& stage);

// Each key in which two YAML texts of the same tree differ: "stages.align.lr.peak: 0.002, before 0.001"; `word` is said
// of the first text.
std::vector<std::string> setting_differences(const std::string& before, const std::string& after,
                                             const std::string& word = "before");

// Whether the directory may be used for a run of `config`, before anything is computed or written (UserError if not): a
// new run needs a new or empty directory; `resume` continues a run, and starts one where there is none; `only_stage`
// needs that this stage was not begun (unless resumed). Settings that differ from those of a begun stage are refused.
void check_run_directory(const RunConfig& config, bool resume, const std::string& only_stage);

}  // namespace hydra::train
