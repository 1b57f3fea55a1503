#include "hydrahead/select/probes.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"

namespace hydra::select {
namespace {

// Rows of the user's own beside the pairs that there are.
std::vector<data::CounterfactualPair> rows_that_fit(std::vector<data::CounterfactualPair> rows,
                                                    const std::vector<data::CounterfactualPair>& others,
                                                    std::int64_t window, const std::filesystem::path& file) {
  std::set<std::string> taken;
  for (const data::CounterfactualPair& pair : others) {
    taken.insert(pair.probe);
  }
  for (const data::CounterfactualPair& row : rows) {
    HYDRA_REQUIRE(!taken.contains(row.probe), file.string(), ": ", row.id, ": found the probe name ", row.probe,
                  ", which one of select.probes or select.general has; expected another one");
    HYDRA_REQUIRE(static_cast<std::int64_t>(row.clean.size()) <= window, file.string(), ": ", row.id, ": found ",
                  row.clean.size(), " tokens with the answer, expected at most the teacher's window of ", window);
  }
  return rows;
}

}  // namespace

std::vector<data::CounterfactualPair> make_pairs(const SelectConfig& config, std::int64_t window, std::uint64_t seed,
                                                 const data::Corpora& corpora, const text::Tokenizer& tokenizer) {
  const std::int64_t context = std::min(config.context, window);
  if (context < config.context) {
    log_warning("select.context: ", config.context, " tokens cut to the teacher's window of ", window);
  }
  data::NiahOptions options;
  options.seed = seed;
  const data::NiahBuilder builder(corpora, tokenizer, options);
  std::vector<data::CounterfactualPair> pairs;
  std::string reasons;
  for (const data::NiahTask task : config.probes) {
    if (const auto reason = builder.unfit_reason(task, context, config.pairs)) {
      log_warning("select.probes: ", *reason, "; left out");
      reasons += (reasons.empty() ? "" : "; ") + *reason;
      continue;
    }
    for (std::int64_t index = 0; index < config.pairs; ++index) {
      pairs.push_back(data::niah_pair(builder, corpora, tokenizer, task, context, index, seed));
    }
  }
  const auto append = [&](std::vector<data::CounterfactualPair> more) {
    pairs.insert(pairs.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  if (config.general == GeneralProbes::builtin) {
    append(data::general_pairs(tokenizer, config.pairs, seed));
  }
  if (!config.general_file.empty()) {
    append(rows_that_fit(data::read_pairs(config.general_file, tokenizer), pairs, window, config.general_file));
  }
  HYDRA_REQUIRE(!pairs.empty(), "select.probes: nothing is left to score heads on: ",
                reasons.empty() ? "found no probe, expected at least one" : reasons);
  return pairs;
}

}  // namespace hydra::select
