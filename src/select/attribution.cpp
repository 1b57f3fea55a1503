#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/select/scorers.hpp"

namespace hydra::select {

at::Tensor attribution(const model::Model& teacher, const PatchedPair& pair) {
  const at::AutoGradMode with_grad(true);
  const model::Qwen3Config& config = teacher.config.base;
  const CapturedRun& base = pair.base;
  at::Tensor hidden = base.hidden.front().detach().requires_grad_(true);
  std::vector<at::Tensor> heads;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const model::Layer& block = teacher.layers[layer];
    const at::Tensor x = ops::rms_norm(hidden, block.input_norm, config.rms_norm_eps);
    heads.push_back(model::teacher_head_outputs(teacher, layer, x, base.sequences, base.tables));
    const at::Tensor middle = hidden + ops::linear(heads.back().flatten(1), block.teacher.o, block.teacher.o_bias);
    const at::Tensor y = ops::rms_norm(middle, block.post_attention_norm, config.rms_norm_eps);
    hidden = middle + ops::swiglu_mlp(y, block.gate, block.up, block.down);
  }
  const at::Tensor m = margin(teacher, pair.readout, hidden.index_select(0, pair.readout.rows));
  const std::vector<at::Tensor> gradients = torch::autograd::grad({m}, heads);
  std::vector<at::Tensor> scores;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const at::Tensor delta = (pair.source.heads[layer] - base.heads[layer]).to(at::kDouble);
    scores.push_back((delta * gradients[layer].to(at::kDouble)).sum(at::IntArrayRef{0, 2}));
  }
  return at::stack(scores).div_(pair.source_margin - pair.base_margin).detach().to(at::kCPU);
}

}  // namespace hydra::select
