// Path patching from upstream heads to the queries, keys and values of later ones (method.md 3.3). The residual change
// that a head carries does not depend on who receives it, so one pass a sender layer serves every round.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "patch_steps.hpp"

namespace hydra::select {
namespace {

// Queries [U, A, H, d] of the readout rows, keys and values [U, t, Hkv, d] of the rows from `begin` on, U variants.
struct Inputs {
  at::Tensor q, k, v;
};

// The rows that differ between the runs begin here: causality keeps every row before it as it was.
std::int64_t first_difference(const PatchedPair& pair) {
  const at::Tensor differs = (pair.base.hidden.front() != pair.source.hidden.front()).any(1).nonzero();
  HYDRA_REQUIRE(differs.size(0) > 0, "select: a pair whose clean and corrupt tokens are the same measures nothing");
  return differs[0].item<std::int64_t>();
}

class ReceiverLayer {
 public:
  ReceiverLayer(const model::Model& teacher, const PatchedPair& pair, std::int64_t layer, std::int64_t begin)
      : teacher_(teacher), pair_(pair), layer_(layer), begin_(begin) {
    const Inputs all = inputs(pair.base.hidden[layer].unsqueeze(0), 0);
    clean_ = {all.q, all.k.slice(1, begin), all.v.slice(1, begin)};
    k_before_ = all.k.slice(1, 0, begin);
    v_before_ = all.v.slice(1, 0, begin);
    clean_heads_ = attend(clean_);
  }

  // The change of O_h at the readout rows [U, A, H, d] when the layer's residual input is hidden [U, t, D] from row
  // `begin` on, as far as it goes by `paths`.
  at::Tensor change(const at::Tensor& hidden, const std::vector<SenderPath>& paths) const {
    Inputs patched = inputs(hidden, begin_);
    const auto follows = [&](SenderPath path) { return std::find(paths.begin(), paths.end(), path) != paths.end(); };
    const auto unpatched = [&](const at::Tensor& x) { return x.expand({hidden.size(0), -1, -1, -1}); };
    patched.q = follows(SenderPath::q) ? patched.q : unpatched(clean_.q);
    patched.k = follows(SenderPath::k) ? patched.k : unpatched(clean_.k);
    patched.v = follows(SenderPath::v) ? patched.v : unpatched(clean_.v);
    return attend(patched) - clean_heads_;
  }

 private:
  // hidden [U, t, D] holds the rows from `first` on.
  Inputs inputs(const at::Tensor& hidden, std::int64_t first) const {
    const model::Qwen3Config& config = teacher_.config.base;
    const model::Layer& block = teacher_.layers[layer_];
    const model::TeacherAttention& weights = block.teacher;
    const at::Tensor x = ops::rms_norm(hidden, block.input_norm, config.rms_norm_eps);
    const auto heads = [&](const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
      return ops::linear(rows, weight, bias).view({rows.size(0) * rows.size(1), -1, config.head_dim});
    };
    // The tables of rows [U t], for positions that repeat in every variant.
    const auto rotated = [&](const at::Tensor& flat, const at::Tensor& norm, const at::Tensor& positions) {
      const std::int64_t variants = flat.size(0) / positions.size(0);
      const auto table = [&](const at::Tensor& t) { return t.index_select(0, positions).repeat({variants, 1}); };
      return ops::norm_rotate(flat, norm, table(pair_.base.tables.cos), table(pair_.base.tables.sin),
                              config.rms_norm_eps);
    };
    const auto variants = [&](const at::Tensor& flat) {
      return flat.view({hidden.size(0), -1, flat.size(1), flat.size(2)});
    };
    const at::Tensor& rows = pair_.readout.rows;
    const at::Tensor positions = at::arange(first, first + hidden.size(1), rows.options());
    const at::Tensor read = x.index_select(1, rows - first);
    return {.q = variants(rotated(heads(read, weights.q, weights.q_bias), weights.q_norm, rows)),
            .k = variants(rotated(heads(x, weights.k, weights.k_bias), weights.k_norm, positions)),
            .v = variants(heads(x, weights.v, weights.v_bias))};
  }

  // Softmax attention of the readout rows over the unpatched keys before `begin` and those of `inputs`: [U, A, H, d].
  at::Tensor attend(const Inputs& inputs) const {
    const model::Qwen3Config& config = teacher_.config.base;
    const std::int64_t variants = inputs.q.size(0), rows = inputs.q.size(1), kv = config.kv_heads;
    const std::int64_t group = config.group_size(), d = config.head_dim;
    // [U, Hkv, A group, d]
    const at::Tensor q = inputs.q.view({variants, rows, kv, group, d})
                             .permute({0, 2, 1, 3, 4})
                             .reshape({variants, kv, rows * group, d}) /
                         std::sqrt(static_cast<double>(d));
    const auto by_head = [](const at::Tensor& x) { return x.transpose(1, 2); };  // [U, Hkv, t, d]
    const at::Tensor before = at::matmul(q, by_head(k_before_).transpose(2, 3));
    const at::Tensor own = at::matmul(q, by_head(inputs.k).transpose(2, 3));
    const at::ScalarType type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor scores = at::cat({before, own}, -1).to(type);
    const at::Tensor keys = at::arange(scores.size(-1), pair_.readout.rows.options());
    const at::Tensor later = keys > pair_.readout.rows.repeat_interleave(group).unsqueeze(1);  // [A group, T]
    const at::Tensor p = at::softmax(scores.masked_fill_(later, -INFINITY), -1).to(q.scalar_type());
    const at::Tensor o =
        at::matmul(p.slice(3, 0, begin_), by_head(v_before_)) + at::matmul(p.slice(3, begin_), by_head(inputs.v));
    return o.view({variants, kv, rows, group, d}).permute({0, 2, 1, 3, 4}).reshape({variants, rows, kv * group, d});
  }

  const model::Model& teacher_;
  const PatchedPair& pair_;
  std::int64_t layer_, begin_;
  Inputs clean_;
  at::Tensor k_before_, v_before_;  // [1, begin, Hkv, d]
  at::Tensor clean_heads_;          // [1, A, H, d]
};

}  // namespace

std::vector<at::Tensor> sender_changes(const model::Model& teacher, const PatchedPair& pair,
                                       const std::vector<SenderPath>& paths) {
  const c10::NoGradGuard no_grad;
  const std::int64_t layers = teacher.config.base.layers;
  const std::int64_t begin = first_difference(pair);
  std::vector<ReceiverLayer> receivers;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    receivers.emplace_back(teacher, pair, layer, begin);
  }
  std::vector<std::vector<at::Tensor>> by_sender_layer(static_cast<std::size_t>(layers));
  for (std::int64_t from = 0; from + 1 < layers; ++from) {
    const at::Tensor delta = (pair.source.heads[from] - pair.base.heads[from]).slice(0, begin);
    const at::Tensor contributions = head_contributions(teacher, from, delta);  // [H, t, D]
    const at::Tensor silent = contributions.ne(0).flatten(1).any(1).logical_not().view({-1, 1, 1, 1});
    at::Tensor hidden = (pair.base.hidden[from] + pair.base.attention[from]).slice(0, begin) + contributions;
    hidden = add_mlp(teacher, from, hidden);
    for (std::int64_t to = from + 1; to < layers; ++to) {
      if (stop_requested()) {
        throw Interrupted("head scoring stopped by a signal");
      }
      by_sender_layer[to].push_back(receivers[to].change(hidden, paths).masked_fill_(silent, 0));
      if (to + 1 < layers) {
        hidden = add_mlp(teacher, to, hidden + pair.base.attention[to].slice(0, begin));
      }
    }
  }
  std::vector<at::Tensor> changes(static_cast<std::size_t>(layers));
  for (std::int64_t layer = 1; layer < layers; ++layer) {
    changes[layer] = at::cat(by_sender_layer[layer]);
  }
  return changes;
}

at::Tensor sender_effects(const model::Model& teacher, const PatchedPair& pair, const std::vector<at::Tensor>& changes,
                          const at::Tensor& receivers) {
  const c10::NoGradGuard no_grad;
  const model::Qwen3Config& config = teacher.config.base;
  const std::int64_t senders = (config.layers - 1) * config.heads;
  const at::Device device = teacher.embed.device();
  std::vector<LayerChange> patches(static_cast<std::size_t>(config.layers));
  at::Tensor touched = at::zeros({senders}, at::TensorOptions().dtype(at::kBool).device(device));
  for (std::int64_t layer = 1; layer < config.layers; ++layer) {
    const at::Tensor chosen = receivers[layer].to(device).to(changes[layer].scalar_type()).unsqueeze(1);  // [H, 1]
    const at::Tensor heads = changes[layer].to(device) * chosen;  // [l H, A, H, d]
    patches[layer].value = ops::linear(heads.flatten(2), teacher.layers[layer].teacher.o);
    touched.slice(0, 0, heads.size(0)).logical_or_(heads.ne(0).flatten(1).any(1));
  }
  const at::Tensor margins = config.layers > 1 ? frozen_margins(teacher, pair.base, pair.readout, patches)
                                               : at::empty({0}, touched.options().dtype(at::kDouble));
  const at::Tensor effects = as_effects(pair, margins, touched);
  return at::cat({effects, at::zeros({config.heads}, at::kDouble)}).view({config.layers, config.heads});
}

}  // namespace hydra::select
