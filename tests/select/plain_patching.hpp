#pragma once
// The plain method that patching is checked against: the whole model again for every head, every position, with hooks
// on the heads' outputs.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <functional>
#include <vector>

#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::test {

struct PlainRun {
  std::vector<at::Tensor> inputs;  // normed input of each layer's attention [T, D]
  std::vector<at::Tensor> heads;   // O_h as used [T, H, d]
  at::Tensor logits;               // [T, V]
};

// `hook` gets each layer's number, the normed input and O_h, and returns the O_h to go on with.
using HeadHook = std::function<at::Tensor(std::int64_t layer, const at::Tensor& input, const at::Tensor& heads)>;

inline PlainRun plain_run(const model::Model& teacher, const std::vector<std::int32_t>& ids, const HeadHook& hook) {
  const c10::NoGradGuard no_grad;
  const double eps = teacher.config.base.rms_norm_eps;
  const auto rows = ops::make_sequences({static_cast<std::int64_t>(ids.size())}, at::kCPU);
  const auto tables = model::rotary_tables(teacher, rows);
  PlainRun run;
  at::Tensor hidden =
      model::embed_tokens(teacher, at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), at::kLong));
  for (std::int64_t layer = 0; layer < teacher.config.base.layers; ++layer) {
    const model::Layer& block = teacher.layers[layer];
    run.inputs.push_back(ops::rms_norm(hidden, block.input_norm, eps));
    run.heads.push_back(
        hook(layer, run.inputs.back(), model::teacher_head_outputs(teacher, layer, run.inputs.back(), rows, tables)));
    const at::Tensor middle = hidden + ops::linear(run.heads.back().flatten(1), block.teacher.o, block.teacher.o_bias);
    hidden = middle +
             ops::swiglu_mlp(ops::rms_norm(middle, block.post_attention_norm, eps), block.gate, block.up, block.down);
  }
  run.logits = model::logits_of(teacher, ops::rms_norm(hidden, teacher.norm, eps));
  return run;
}

inline PlainRun plain_run(const model::Model& teacher, const std::vector<std::int32_t>& ids) {
  return plain_run(teacher, ids, [](std::int64_t, const at::Tensor&, const at::Tensor& heads) { return heads; });
}

}  // namespace hydra::test
