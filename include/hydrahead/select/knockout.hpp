#pragma once
// The check of a ranking (method.md 3.7): retrieval accuracy of the teacher, by the answers that it generates, against
// the number of heads whose output is zeroed, in the ranking's order, in reverse, and in random orders. A ranking is
// right if its order destroys retrieval with few heads while random orders leave it.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/data/corpora.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/model/head_scores.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/select/knockout_config.hpp"
#include "hydrahead/text/tokenizer.hpp"

namespace hydra::select {

using model::LayerHead;

struct KnockoutCurve {
  std::string name;              // "score order", "reverse order", "random order, seed 0"
  std::vector<double> accuracy;  // 0 to 1, for each count: share of the references that the answers hold
};
struct Knockout {
  std::int64_t heads = 0, context = 0, samples = 0;  // of the model; tokens; all tasks together
  std::vector<std::string> tasks;
  std::vector<std::int64_t> counts;
  std::vector<KnockoutCurve> curves;
};

// counts as asked for, or the default ones, ascending and at most `heads`.
std::vector<std::int64_t> knockout_counts(const std::vector<std::int64_t>& asked, std::int64_t heads);

// ranking: every head of the teacher once, the most important first. Points are shared out over ranks; the result is
// the same on each. Each point is on disk in `work_dir` at once, so that after Interrupted the same call goes on; a
// directory of another `identity` (model and precision), ranking or samples is a UserError. Tasks that do not fit
// `context` are left out (none left: UserError).
Knockout knockout_curves(const model::Model& teacher, const std::vector<LayerHead>& ranking,
                         const KnockoutConfig& config, std::int64_t context, const data::Corpora& corpora,
                         const text::Tokenizer& tokenizer, const std::filesystem::path& work_dir, const Json& identity,
                         dist::Communicator& communicator);

Json to_json(const Knockout& knockout);
std::string knockout_table(const Knockout& knockout);  // Markdown
// <dir>/knockout.json, knockout.md, knockout.svg.
void write_knockout(const std::filesystem::path& dir, const Knockout& knockout);

}  // namespace hydra::select
