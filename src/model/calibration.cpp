// Attention distance, entropy and output amplitude of every teacher head, layer by layer.

#include "calibration.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/model/attention_shape.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {
namespace {

constexpr std::int64_t slice_rows = 8192;

struct Slice {
  at::Tensor hidden;  // [N, D] residual stream
  ops::Sequences sequences;
  RotaryTables tables;
};

std::vector<Slice> make_slices(const Model& teacher, const CalibrationTokens& tokens) {
  std::vector<Slice> slices;
  std::vector<std::int64_t> ids, lengths;
  const auto close = [&] {
    if (ids.empty()) {
      return;
    }
    Slice slice;
    slice.sequences = ops::make_sequences(lengths, teacher.embed.device());
    slice.tables = rotary_tables(teacher, slice.sequences);
    slice.hidden = embed_tokens(teacher, at::tensor(ids, at::kLong).to(teacher.embed.device()));
    slices.push_back(std::move(slice));
    ids.clear();
    lengths.clear();
  };
  for (const auto& sequence : tokens.sequences) {
    if (static_cast<std::int64_t>(ids.size() + sequence.size()) > slice_rows) {
      close();
    }
    for (const std::int32_t id : sequence) {
      HYDRA_REQUIRE(id >= 0 && id < teacher.config.base.vocab_size, "calibration tokens: found id ", id,
                    ", expected ids below the vocabulary size ", teacher.config.base.vocab_size);
      ids.push_back(id);
    }
    lengths.push_back(static_cast<std::int64_t>(sequence.size()));
  }
  close();
  return slices;
}

// Sums over the layer's rows, one value a head, fp64.
struct Sums {
  at::Tensor rms;  // [H]
  std::int64_t rows = 0;
  AttentionShape attention;
};

void add_slice(const Model& teacher, std::int64_t layer, const CalibrationSlice& slice, Sums& sums) {
  add_attention_shape(teacher, layer, slice.input, slice.sequences, slice.tables, sums.attention);
  const at::Tensor outputs = slice.head_outputs.to(at::promote_types(slice.head_outputs.scalar_type(), at::kFloat));
  sums.rms += outputs.square().mean(-1).sqrt().to(at::kDouble).sum(0);
  sums.rows += outputs.size(0);
}

std::vector<double> to_vector(const at::Tensor& values) {
  const at::Tensor host = values.to(at::kCPU, at::kDouble).contiguous();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

HeadStatistics finish(const Sums& sums) {
  HYDRA_REQUIRE(sums.attention.queries > 0, "calibration: found no document of at least two tokens");
  HeadStatistics statistics;
  const auto queries = static_cast<double>(sums.attention.queries);
  statistics.rms = to_vector(sums.rms / static_cast<double>(sums.rows));
  statistics.distance = to_vector(sums.attention.distance / queries);
  const std::vector<double> entropy = to_vector(sums.attention.entropy / queries);
  const auto [low, high] = std::minmax_element(entropy.begin(), entropy.end());
  for (const double value : entropy) {
    statistics.concentration.push_back(*high > *low ? 1.0 - (value - *low) / (*high - *low) : 1.0);
  }
  return statistics;
}

}  // namespace

void walk_teacher(const Model& teacher, const CalibrationTokens& tokens,
                  const std::function<void(std::int64_t, const HeadStatistics&)>& begin_layer,
                  const std::function<void(std::int64_t, const CalibrationSlice&)>& on_slice,
                  const std::function<void(std::int64_t)>& end_layer) {
  const c10::NoGradGuard no_grad;
  std::vector<Slice> slices = make_slices(teacher, tokens);
  HYDRA_REQUIRE(!slices.empty(), "calibration: found no tokens, expected at least two");
  const Qwen3Config& config = teacher.config.base;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    Sums sums{.rms = at::zeros({config.heads}, teacher.embed.options().dtype(at::kDouble)),
              .rows = 0,
              .attention = empty_attention_shape(teacher)};
    std::vector<CalibrationSlice> parts;
    for (const Slice& slice : slices) {
      if (stop_requested()) {
        throw Interrupted("calibration stopped by a signal");
      }
      CalibrationSlice part;
      part.input = ops::rms_norm(slice.hidden, teacher.layers[layer].input_norm, config.rms_norm_eps);
      part.sequences = slice.sequences;
      part.tables = slice.tables;
      part.head_outputs = teacher_head_outputs(teacher, layer, part.input, part.sequences, part.tables);
      add_slice(teacher, layer, part, sums);
      parts.push_back(std::move(part));
    }
    begin_layer(layer, finish(sums));
    for (std::size_t i = 0; i < slices.size(); ++i) {
      on_slice(layer, parts[i]);
      parts[i] = {};
      slices[i].hidden =
          transformer_layer(teacher, layer, slices[i].hidden, slices[i].sequences, slices[i].tables, ForwardOptions{});
    }
    end_layer(layer);
  }
}

}  // namespace hydra::model
