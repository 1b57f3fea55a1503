#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/select/scorers.hpp"
#include "patch_steps.hpp"

namespace hydra::select {
namespace {

constexpr std::int64_t rows_at_once = 65536;

// m of the run in which each of these heads' outputs is replaced: change [U, T, D] of the layer's attention output.
at::Tensor margins_after(const model::Model& teacher, const PatchedPair& pair, std::int64_t layer,
                         const at::Tensor& change) {
  const std::int64_t variants = change.size(0), length = change.size(1);
  const ops::Sequences rows =
      ops::make_sequences(std::vector<std::int64_t>(static_cast<std::size_t>(variants), length), change.device());
  const model::RotaryTables tables = model::rotary_tables(teacher, rows);
  at::Tensor hidden = add_mlp(teacher, layer, pair.base.hidden[layer] + pair.base.attention[layer] + change);
  hidden = hidden.flatten(0, 1);
  for (std::int64_t next = layer + 1; next < teacher.config.base.layers; ++next) {
    if (stop_requested()) {
      throw Interrupted("head scoring stopped by a signal");
    }
    hidden = model::transformer_layer(teacher, next, hidden, rows, tables, {});
  }
  return margin(teacher, pair.readout, hidden.view({variants, length, -1}).index_select(1, pair.readout.rows));
}

}  // namespace

at::Tensor ablation(const model::Model& teacher, const PatchedPair& pair, Ablation kind) {
  const c10::NoGradGuard no_grad;
  const model::Qwen3Config& config = teacher.config.base;
  const std::int64_t length = pair.base.sequences.rows();
  const std::int64_t at_once = std::clamp<std::int64_t>(rows_at_once / length, 1, config.heads);
  std::vector<at::Tensor> margins, touched;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const at::Tensor& heads = pair.base.heads[layer];
    const at::Tensor kept = kind == Ablation::mean ? heads.mean(0, true) : at::zeros_like(heads.slice(0, 0, 1));
    const at::Tensor change = head_contributions(teacher, layer, kept - heads);  // [H, T, D]
    touched.push_back(change.ne(0).flatten(1).any(1));
    for (std::int64_t first = 0; first < config.heads; first += at_once) {
      margins.push_back(
          margins_after(teacher, pair, layer, change.slice(0, first, std::min(first + at_once, config.heads))));
    }
  }
  return as_effects(pair, at::cat(margins), at::cat(touched)).view({config.layers, config.heads});
}

}  // namespace hydra::select
