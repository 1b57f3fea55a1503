#pragma once
// The counterfactual pairs that a selection is scored on (method.md 3.1).

#include <cstdint>
#include <vector>

#include "hydrahead/data/counterfactual.hpp"
#include "hydrahead/select/select_config.hpp"

namespace hydra::select {

// `pairs` pairs of every probe: the NIAH tasks at config.context tokens, cut to `window` (the teacher's), then the
// general ones. A task that does not fit is left out with a warning; UserError if nothing is left, and for rows
// of config.general_file beyond the window or under the name of another probe.
std::vector<data::CounterfactualPair> make_pairs(const SelectConfig& config, std::int64_t window, std::uint64_t seed,
                                                 const data::Corpora& corpora, const text::Tokenizer& tokenizer);

}  // namespace hydra::select
