// One pass that records, and the passes that change it: with all attention outputs frozen but the patched ones, only
// the rows that are read out are computed again (method.md 3.2).

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "patch_steps.hpp"

namespace hydra::select {

at::Tensor add_mlp(const model::Model& teacher, std::int64_t layer, const at::Tensor& middle) {
  const model::Layer& block = teacher.layers[layer];
  const at::Tensor flat = middle.flatten(0, -2);
  constexpr std::int64_t block_rows = 32768;  // bounds the MLP's inner activations
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < flat.size(0); begin += block_rows) {
    const at::Tensor rows = flat.slice(0, begin, std::min(begin + block_rows, flat.size(0)));
    const at::Tensor x = ops::rms_norm(rows, block.post_attention_norm, teacher.config.base.rms_norm_eps);
    parts.push_back(rows + ops::swiglu_mlp(x, block.gate, block.up, block.down));
  }
  return (parts.size() == 1 ? parts.front() : at::cat(parts)).view(middle.sizes());
}

at::Tensor head_contributions(const model::Model& teacher, std::int64_t layer, const at::Tensor& heads) {
  const model::Qwen3Config& base = teacher.config.base;
  const at::Tensor weight = teacher.layers[layer].teacher.o.to(heads.scalar_type());
  return at::einsum("ahd,ehd->hae", {heads, weight.view({-1, base.heads, base.head_dim})});
}

CapturedRun capture_run(const model::Model& teacher, const std::vector<std::int32_t>& ids) {
  const c10::NoGradGuard no_grad;
  const at::Device device = teacher.embed.device();
  CapturedRun run;
  run.sequences = ops::make_sequences({static_cast<std::int64_t>(ids.size())}, device);
  run.tables = model::rotary_tables(teacher, run.sequences);
  const at::Tensor tokens = at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), at::kLong).to(device);
  run.hidden.push_back(model::embed_tokens(teacher, tokens));
  for (std::int64_t layer = 0; layer < teacher.config.base.layers; ++layer) {
    const model::Layer& block = teacher.layers[layer];
    const at::Tensor x = ops::rms_norm(run.hidden.back(), block.input_norm, teacher.config.base.rms_norm_eps);
    run.heads.push_back(model::teacher_head_outputs(teacher, layer, x, run.sequences, run.tables));
    run.attention.push_back(ops::linear(run.heads.back().flatten(1), block.teacher.o, block.teacher.o_bias));
    run.hidden.push_back(add_mlp(teacher, layer, run.hidden.back() + run.attention.back()));
  }
  return run;
}

at::Tensor frozen_margins(const model::Model& teacher, const CapturedRun& base, const Readout& readout,
                          const std::vector<LayerChange>& changes) {
  const c10::NoGradGuard no_grad;
  HYDRA_CHECK(changes.size() == teacher.layers.size(), changes.size(), " changes for ", teacher.layers.size(),
              " layers");
  const std::int64_t count = readout.rows.size(0);
  at::Tensor cases = at::empty({0, count, teacher.config.base.hidden_size}, base.hidden.front().options());
  for (std::int64_t layer = 0; layer < teacher.config.base.layers; ++layer) {
    const LayerChange& change = changes[layer];
    const std::int64_t end = change.value.defined() ? change.begin + change.value.size(0) : cases.size(0);
    HYDRA_CHECK(end >= cases.size(0), "cases must come in the order of their layers");
    const at::Tensor start = base.hidden[layer].index_select(0, readout.rows);
    cases = at::cat({cases, start.expand({end - cases.size(0), -1, -1})});
    if (end == 0) {
      continue;
    }
    cases = cases + base.attention[layer].index_select(0, readout.rows);
    if (change.value.defined()) {
      cases.slice(0, change.begin, end).add_(change.value);
    }
    cases = add_mlp(teacher, layer, cases);
  }
  return margin(teacher, readout, cases);
}

at::Tensor as_effects(const PatchedPair& pair, const at::Tensor& margins, const at::Tensor& touched) {
  const at::Tensor found = (pair.base_margin - margins.to(at::kDouble)) / (pair.base_margin - pair.source_margin);
  return at::where(touched, found, at::zeros_like(found)).to(at::kCPU);
}

at::Tensor receiver_effects(const model::Model& teacher, const PatchedPair& pair) {
  const c10::NoGradGuard no_grad;
  const model::Qwen3Config& config = teacher.config.base;
  const at::Tensor& rows = pair.readout.rows;
  std::vector<LayerChange> changes;
  std::vector<at::Tensor> touched;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const at::Tensor delta =
        pair.source.heads[layer].index_select(0, rows) - pair.base.heads[layer].index_select(0, rows);
    changes.push_back({layer * config.heads, head_contributions(teacher, layer, delta)});
    touched.push_back(changes.back().value.ne(0).flatten(1).any(1));
  }
  const at::Tensor margins = frozen_margins(teacher, pair.base, pair.readout, changes);
  return as_effects(pair, margins, at::cat(touched)).view({config.layers, config.heads});
}

}  // namespace hydra::select
