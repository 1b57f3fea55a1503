#include "hydrahead/select/analysis.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/model/attention_shape.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/select/similarity.hpp"

namespace hydra::select {
namespace {

// Values of a layer's heads [H].
struct LayerValues {
  at::Tensor distance, entropy, sink, rms;
};

at::Tensor stacked(const std::vector<LayerValues>& layers, at::Tensor LayerValues::*member) {
  std::vector<at::Tensor> rows;
  for (const LayerValues& layer : layers) {
    rows.push_back((layer.*member).to(at::kCPU, at::kDouble));
  }
  return at::stack(rows);
}

// Tokens of a block whose vectors of all heads [b, A, D] take about 256 MiB.
std::int64_t token_block(std::int64_t heads, std::int64_t width) {
  return std::max<std::int64_t>(1, (std::int64_t{64} << 20) / (heads * width));
}

}  // namespace

HeadAnalysis analyse_heads(const model::Model& teacher, const std::vector<std::vector<std::int32_t>>& sequences) {
  HYDRA_CHECK(!teacher.is_hybrid() && !sequences.empty(), "a teacher and token sequences are analysed");
  const c10::NoGradGuard no_grad;
  const model::Qwen3Config& base = teacher.config.base;
  std::vector<std::int64_t> ids, lengths;
  for (const auto& sequence : sequences) {
    ids.insert(ids.end(), sequence.begin(), sequence.end());
    lengths.push_back(static_cast<std::int64_t>(sequence.size()));
  }
  const ops::Sequences rows = ops::make_sequences(lengths, teacher.embed.device());
  const model::RotaryTables tables = model::rotary_tables(teacher, rows);
  const std::int64_t n = rows.rows();
  at::Tensor hidden = model::embed_tokens(teacher, at::tensor(ids, at::kLong).to(teacher.embed.device()));

  std::vector<at::Tensor> heads, outputs;  // of each layer: O_h [N, H, d], and W_O O [N, 1, D]
  std::vector<LayerValues> values;
  for (std::int64_t layer = 0; layer < base.layers; ++layer) {
    if (stop_requested()) {
      throw Interrupted("analysis stopped by a signal");
    }
    const model::Layer& block = teacher.layers[layer];
    const at::Tensor x = ops::rms_norm(hidden, block.input_norm, base.rms_norm_eps);
    model::AttentionShape shape = model::empty_attention_shape(teacher);
    model::add_attention_shape(teacher, layer, x, rows, tables, shape);
    heads.push_back(model::teacher_head_outputs(teacher, layer, x, rows, tables));
    outputs.push_back(ops::linear(heads.back().flatten(1), block.teacher.o).unsqueeze(1));
    const at::Tensor square = heads.back().to(at::kDouble).square().mean(at::IntArrayRef{0, 2});
    const auto queries = static_cast<double>(shape.queries);
    values.push_back({.distance = shape.distance / queries,
                      .entropy = shape.entropy / queries,
                      .sink = shape.sink / queries,
                      .rms = square.sqrt()});
    hidden = model::transformer_layer(teacher, layer, hidden, rows, tables, {});
  }

  // [b, A, D] in fp32: each head's part of the residual stream.
  const auto parts = [&](std::int64_t begin, std::int64_t end) {
    std::vector<at::Tensor> of_layers;
    for (std::int64_t layer = 0; layer < base.layers; ++layer) {
      const at::Tensor weight = teacher.layers[layer].teacher.o.view({-1, base.heads, base.head_dim});  // [D, H, d]
      const at::Tensor part = heads[layer].slice(0, begin, end);
      of_layers.push_back(at::einsum("bhd,ehd->bhe", {part, weight.to(part.scalar_type())}).to(at::kFloat));
    }
    return at::cat(of_layers, 1);
  };
  const auto sums = [&](std::int64_t begin, std::int64_t end) {
    std::vector<at::Tensor> of_layers;
    for (const at::Tensor& output : outputs) {
      of_layers.push_back(output.slice(0, begin, end).to(at::kFloat));
    }
    return at::cat(of_layers, 1);
  };
  const std::int64_t all = base.layers * base.heads;
  return {.tokens = n,
          .sequences = rows.count(),
          .distance = stacked(values, &LayerValues::distance),
          .entropy = stacked(values, &LayerValues::entropy),
          .sink = stacked(values, &LayerValues::sink),
          .rms = stacked(values, &LayerValues::rms),
          .head_cosine = mean_cosine(n, token_block(all, base.hidden_size + all), parts),
          .head_cka = linear_cka(heads),
          .layer_cosine = mean_cosine(n, token_block(base.layers, base.hidden_size), sums),
          .layer_cka = linear_cka(outputs)};
}

}  // namespace hydra::select
