#pragma once
// Scorers beside the causal effects of patching.hpp (method.md 3.6), on the same pairs. All give [L, H], fp64, on the
// CPU.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/select/patching.hpp"

namespace hydra::select {

// Attribution patching: IE ~ sum_t (O_h(source) - O_h(base)) . dm/dO_h / (m(source) - m(base)) by one backward pass
// over the base run; first order in the change, all positions and all ways to the readout.
at::Tensor attribution(const model::Model& teacher, const PatchedPair& pair);

// Observational (arXiv 2404.15574): the share of answer tokens that the model itself would say next while the head's
// most attended position holds just that token inside the answer's place in the prompt. sources [A]: positions.
at::Tensor retrieval_score(const model::Model& teacher, const CapturedRun& clean, const Readout& readout,
                           const std::vector<std::int64_t>& sources);

enum class Ablation { zero, mean };  // mean: of the head's output over the run's positions
// (m - m without the head) / (m(x) - m(x')): the head's output replaced at all positions of the base run, everything
// after it computed again.
at::Tensor ablation(const model::Model& teacher, const PatchedPair& pair, Ablation kind);

}  // namespace hydra::select
