// Stage 1 (method.md section 6, Eq. 15): mean squared error between teacher and student attention outputs (after W_O,
// before the residual), or between the outputs of whole layers, averaged over the layers. A layer's graph is built,
// walked backward and freed before the next one begins, so activations of one layer are held at a time.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/train/stage_loss.hpp"

namespace hydra::train {
namespace {

using model::Layer;
using model::Model;

at::Tensor attention_input(const Model& model, const Layer& layer, const at::Tensor& hidden) {
  return ops::rms_norm(hidden, layer.input_norm, model.config.base.rms_norm_eps);
}

// The block's output, given its attention sublayer's.
at::Tensor layer_output(const Model& model, const Layer& layer, const at::Tensor& hidden, const at::Tensor& attention) {
  const at::Tensor middle = hidden + attention;
  const at::Tensor x = ops::rms_norm(middle, layer.post_attention_norm, model.config.base.rms_norm_eps);
  return middle + ops::swiglu_mlp(x, layer.gate, layer.up, layer.down);
}

// Squared error summed and divided by `count`. Its gradient 2 difference / count, times `weight`, goes straight into
// the backward pass of `output`.
at::Tensor squared_error(const at::Tensor& output, const at::Tensor& target, double count, double weight,
                         bool backward) {
  const at::ScalarType type = output.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor difference = output.detach().to(type) - target.to(type);
  if (backward) {
    torch::autograd::backward({output}, {(difference * (2.0 * weight / count)).to(output.scalar_type())});
  }
  return difference.square().sum(at::kDouble) / count;
}

}  // namespace

StageLoss align_loss(const Model& student, const Model& teacher, const DeviceBatch& batch, double divisor,
                     const AlignOptions& options, bool backward) {
  const std::int64_t layers = teacher.config.base.layers;
  const double count = divisor * static_cast<double>(teacher.config.base.hidden_size);
  const double weight = 1.0 / static_cast<double>(layers);
  const model::RotaryTables tables = model::rotary_tables(student, batch.sequences);
  const at::AutoGradMode no_graph(false);

  const bool whole_layer = options.target == AlignTarget::layer;
  const bool own_stream = options.input == AlignInput::student;
  StageLoss result;
  at::Tensor hidden = model::embed_tokens(teacher, batch.ids);  // the teacher's residual stream
  at::Tensor own_hidden = own_stream ? model::embed_tokens(student, batch.ids) : at::Tensor();  // the student's
  for (std::int64_t i = 0; i < layers; ++i) {
    const Layer& theirs = teacher.layers[i];
    const Layer& ours = student.layers[i];
    const bool last = i + 1 == layers;
    const at::Tensor x = attention_input(teacher, theirs, hidden);
    const at::Tensor attention = model::attention_sublayer(teacher, i, x, batch.sequences, tables, {});
    const at::Tensor output = !last || whole_layer ? layer_output(teacher, theirs, hidden, attention) : at::Tensor();

    if (student.hooks.before_forward) {
      student.hooks.before_forward(i);
    }
    const at::Tensor own_before = own_stream ? own_hidden : hidden;
    const at::Tensor own_x = own_stream ? attention_input(student, ours, own_hidden) : x;
    at::Tensor own_attention, own_output;
    {
      const at::AutoGradMode graph(backward);
      own_attention = model::attention_sublayer(student, i, own_x, batch.sequences, tables, {});
      own_output = whole_layer ? layer_output(student, ours, own_before, own_attention) : at::Tensor();
    }
    result.layer_mse.push_back(whole_layer ? squared_error(own_output, output, count, weight, backward)
                                           : squared_error(own_attention, attention, count, weight, backward));
    if (backward && student.hooks.after_backward) {
      student.hooks.after_backward(i);
    }
    if (own_stream && !last) {
      own_hidden = whole_layer ? own_output.detach() : layer_output(student, ours, own_before, own_attention.detach());
    }
    hidden = output;
  }
  result.mse = at::stack(result.layer_mse).mean();
  result.loss = result.mse;
  return result;
}

}  // namespace hydra::train
