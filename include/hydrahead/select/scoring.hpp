#pragma once
// Scores of all heads over all pairs: shared out over ranks, resumable pair by pair, the same for any number of ranks.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/data/counterfactual.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/select/fusion.hpp"
#include "hydrahead/select/select_config.hpp"

namespace hydra::select {

// Means over the pairs of each probe, in the probes' order. Pairs whose margin falls by less than min_margin are
// dropped and counted; a probe that keeps fewer than the share min_kept loses all of them. Each finished pair is on
// disk in `work_dir` at once; a directory with other `settings` (all that changes results) is refused. Throws
// Interrupted when a signal asked to stop.
std::vector<ProbeEffects> score_heads(const model::Model& teacher, const std::vector<data::CounterfactualPair>& pairs,
                                      const SelectConfig& config, const std::filesystem::path& work_dir,
                                      const Json& settings, dist::Communicator& communicator);

// What scoring a pair of `tokens` tokens with `rows` read-out rows takes, in bytes beyond the model.
struct ScoringMemory {
  std::int64_t device = 0;          // at the peak
  std::int64_t disk_of_a_pair = 0;  // kept until the selection is done
};
ScoringMemory scoring_memory(const model::Qwen3Config& teacher, const SelectConfig& config, std::int64_t tokens,
                             std::int64_t rows, std::int64_t element_bytes);

}  // namespace hydra::select
