#pragma once
// Internal to train: the evaluations of a run's phases, and the report at its end.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/eval/evaluate.hpp"
#include "hydrahead/train/run_directory.hpp"
#include "hydrahead/train/stage.hpp"

namespace hydra::train {

class RunEvaluation {
 public:
  // Loads what the samples are made of, so that a missing text is found before anything is trained.
  RunEvaluation(const RunConfig& config, const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                RunDirectory directory, dist::Communicator& communicator, const model::LoadOptions& load);

  // "teacher", "converted" or a stage's name: evaluates the model in `dir` if eval.after asks for it.
  void evaluate(const std::string& phase, const std::filesystem::path& dir);
  bool wanted(const std::string& phase) const;

 private:
  const RunConfig& config_;
  const text::Tokenizer& tokenizer_;
  RunDirectory directory_;
  dist::Communicator& communicator_;
  model::LoadOptions load_;
  std::optional<data::Corpora> corpora_;
  std::vector<data::Row> ppl_rows_;
};

// Writes report.json, report.md and report.html from what the run directory holds, and returns the tables.
std::string write_report(const RunConfig& config, const RunDirectory& directory, const std::vector<Stage>& stages,
                         const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace hydra::train
