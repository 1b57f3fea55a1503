#include "hydrahead/model/attention_shape.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "attention.hpp"
#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {
namespace {

constexpr std::int64_t query_block = 512, key_block = 1024;
constexpr double masked = -1e30;  // finite, so that p s of a hidden key is 0 and no NaN

// Softmax sums of a block of queries [H, b] over the keys seen so far, all relative to the running maximum.
struct Running {
  at::Tensor maximum;   // m
  at::Tensor mass;      // sum e^(s-m)
  at::Tensor position;  // sum e^(s-m) (position of the key)
  at::Tensor score;     // sum e^(s-m) (s-m)
};

// scores [H, b, keys], masked where hidden; positions [keys] of the keys.
void add_keys(Running& running, const at::Tensor& scores, const at::Tensor& positions) {
  const at::Tensor maximum = at::maximum(running.maximum, scores.amax(-1));
  const at::Tensor shifted = scores - maximum.unsqueeze(-1);
  const at::Tensor weights = shifted.exp();
  const at::Tensor fall = running.maximum - maximum;  // <= 0
  const at::Tensor decay = fall.exp();
  running.score = decay * (running.score + fall * running.mass) + at::mul(weights, shifted).sum(-1);
  running.mass = decay * running.mass + weights.sum(-1);
  running.position = decay * running.position + at::matmul(weights, positions);
  running.maximum = maximum;
}

// q, k [T, H, d] of one sequence.
void add_sequence(const at::Tensor& q, const at::Tensor& k, double scale, AttentionShape& shape) {
  const std::int64_t length = q.size(0);
  const at::ScalarType type = at::promote_types(q.scalar_type(), at::kFloat);
  const at::Tensor keys = k.permute({1, 2, 0}).contiguous();  // [H, d, T]
  const at::Tensor all_positions = at::arange(length, q.options().dtype(at::kLong));
  for (std::int64_t begin = 1; begin < length; begin += query_block) {
    const std::int64_t end = std::min(begin + query_block, length);
    const at::Tensor positions = all_positions.slice(0, begin, end).unsqueeze(1);  // [b, 1]
    const at::Tensor queries = q.slice(0, begin, end).permute({1, 0, 2}).mul(scale);
    const auto scores_of = [&](std::int64_t from, std::int64_t to) {
      return at::matmul(queries, keys.slice(2, from, to)).to(type);
    };
    const auto filled = [&](double value) {
      return at::full({q.size(1), end - begin}, value, q.options().dtype(type));
    };
    Running running{filled(masked), filled(0), filled(0), filled(0)};
    for (std::int64_t first = 1; first < end; first += key_block) {
      const std::int64_t last = std::min(first + key_block, end);
      const at::Tensor visible = all_positions.slice(0, first, last);
      at::Tensor scores = scores_of(first, last);
      if (last > begin + 1) {
        scores.masked_fill_(visible.gt(positions), masked);
      }
      add_keys(running, scores, visible.to(type));
    }
    const at::Tensor mean_key = running.position / running.mass;
    shape.distance += positions.squeeze(1).sub(mean_key).to(at::kDouble).sum(1);
    shape.entropy += (running.mass.log() - running.score / running.mass).to(at::kDouble).sum(1);
    const at::Tensor others = running.maximum + running.mass.log();
    shape.sink += (scores_of(0, 1).squeeze(-1) - others).sigmoid().to(at::kDouble).sum(1);
  }
  shape.queries += length - 1;
}

}  // namespace

AttentionShape empty_attention_shape(const Model& teacher) {
  const auto zeros = [&] { return at::zeros({teacher.config.base.heads}, teacher.embed.options().dtype(at::kDouble)); };
  return {.distance = zeros(), .entropy = zeros(), .sink = zeros(), .queries = 0};
}

void add_attention_shape(const Model& teacher, std::int64_t layer, const at::Tensor& input,
                         const ops::Sequences& sequences, const RotaryTables& tables, AttentionShape& shape) {
  const Qwen3Config& config = teacher.config.base;
  const TeacherAttention& weights = teacher.layers[layer].teacher;
  const auto project = [&](const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& norm) {
    const at::Tensor heads = project_heads(input, weight, bias, config.head_dim);
    return ops::norm_rotate(heads, norm, tables.cos, tables.sin, config.rms_norm_eps);
  };
  const at::Tensor q = project(weights.q, weights.q_bias, weights.q_norm);
  const at::Tensor k = project(weights.k, weights.k_bias, weights.k_norm).repeat_interleave(config.group_size(), 1);
  const double scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    const std::int64_t begin = sequences.offsets[s], end = sequences.offsets[s + 1];
    add_sequence(q.slice(0, begin, end), k.slice(0, begin, end), scale, shape);
  }
}

}  // namespace hydra::model
