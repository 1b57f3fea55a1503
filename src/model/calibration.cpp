// Attention distance, entropy and output amplitude of every teacher head. The first query and the first key of each
// document are left out of distance and entropy (the sink), rows renormalised; scores are formed for blocks of queries,
// never whole.

#include "calibration.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {
namespace {

constexpr std::int64_t slice_rows = 8192;
constexpr std::int64_t query_block = 512;

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
  at::Tensor rms, distance, entropy;  // [H]
  std::int64_t rows = 0, queries = 0;
};

// q, k [T, H, d] of one sequence (keys repeated to the query heads): adds sums over queries 1..T-1 and keys 1..T-1.
void add_attention_shape(const at::Tensor& q, const at::Tensor& k, double scale, Sums& sums) {
  constexpr double masked = -1e30;  // finite, so that p log p of a hidden key is 0 and no NaN
  const std::int64_t length = q.size(0);
  const at::ScalarType type = at::promote_types(q.scalar_type(), at::kFloat);
  const at::Tensor keys = k.slice(0, 1).permute({1, 2, 0}).contiguous();  // [H, d, T-1]
  const at::Tensor key_positions = at::arange(1, length, q.options().dtype(at::kLong));
  for (std::int64_t begin = 1; begin < length; begin += query_block) {
    const std::int64_t end = std::min(begin + query_block, length);
    const at::Tensor positions = at::arange(begin, end, key_positions.options()).unsqueeze(1);  // [b, 1]
    const at::Tensor visible = key_positions.slice(0, 0, end - 1);
    const at::Tensor queries = q.slice(0, begin, end).permute({1, 0, 2}).mul(scale);
    const at::Tensor scores =
        at::matmul(queries, keys.slice(2, 0, end - 1)).to(type).masked_fill_(visible.gt(positions), masked);
    const at::Tensor log_p = at::log_softmax(scores, -1);  // [H, b, keys]
    const at::Tensor p = log_p.exp();
    const at::Tensor mean_key = at::matmul(p, visible.to(type));  // [H, b]
    sums.distance += positions.squeeze(1).sub(mean_key).to(at::kDouble).sum(1);
    sums.entropy -= at::mul(p, log_p).sum({1, 2}).to(at::kDouble);
  }
  sums.queries += length - 1;
}

void add_slice(const Model& teacher, std::int64_t layer, const CalibrationSlice& slice, Sums& sums) {
  const Qwen3Config& config = teacher.config.base;
  const TeacherAttention& weights = teacher.layers[layer].teacher;
  const std::int64_t n = slice.input.size(0), d = config.head_dim;
  const auto project = [&](const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& norm) {
    const at::Tensor heads = ops::linear(slice.input, weight, bias).view({n, -1, d});
    return ops::norm_rotate(heads, norm, slice.tables.cos, slice.tables.sin, config.rms_norm_eps);
  };
  const at::Tensor q = project(weights.q, weights.q_bias, weights.q_norm);
  const at::Tensor k = project(weights.k, weights.k_bias, weights.k_norm).repeat_interleave(config.group_size(), 1);
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  for (std::int64_t s = 0; s < slice.sequences.count(); ++s) {
    const std::int64_t begin = slice.sequences.offsets[s], end = slice.sequences.offsets[s + 1];
    add_attention_shape(q.slice(0, begin, end), k.slice(0, begin, end), scale, sums);
  }
  const at::Tensor outputs = slice.head_outputs.to(at::promote_types(q.scalar_type(), at::kFloat));
  sums.rms += outputs.square().mean(-1).sqrt().to(at::kDouble).sum(0);
  sums.rows += n;
}

std::vector<double> to_vector(const at::Tensor& values) {
  const at::Tensor host = values.to(at::kCPU, at::kDouble).contiguous();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

HeadStatistics finish(const Sums& sums) {
  HYDRA_REQUIRE(sums.queries > 0, "calibration: found no document of at least two tokens");
  HeadStatistics statistics;
  const auto queries = static_cast<double>(sums.queries);
  statistics.rms = to_vector(sums.rms / static_cast<double>(sums.rows));
  statistics.distance = to_vector(sums.distance / queries);
  const std::vector<double> entropy = to_vector(sums.entropy / queries);
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
    const auto zeros = [&] { return at::zeros({config.heads}, teacher.embed.options().dtype(at::kDouble)); };
    Sums sums{zeros(), zeros(), zeros()};
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
