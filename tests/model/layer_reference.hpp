#pragma once
// The hybrid attention sublayer straight from method.md section 4: one sequence, head by head in original order, token
// by token, fp64. Written for clarity; the product's code shares nothing with it.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model::test {

class ReferenceSublayer {
 public:
  ReferenceSublayer(const Model& model, std::int64_t layer, at::Tensor x, bool log_scale)
      : options_(*model.config.hybrid),
        plan_(model.config.plan->layers[layer]),
        base_(model.config.base),
        weights_(model.layers[layer].hybrid),
        x_(std::move(x)),
        frequencies_(model.rope_frequencies),
        log_scale_(log_scale),
        T_(x_.size(0)),
        d_(base_.head_dim) {}

  at::Tensor output() const {  // [T, D]
    std::vector<at::Tensor> heads;
    for (std::int64_t h = 0; h < base_.heads; ++h) {
      const std::int64_t fa = position(plan_.fa_heads, h);
      const at::Tensor o = fa >= 0 ? full_attention(h, fa) : delta_rule(h, position(plan_.gdn_heads, h));
      const at::Tensor gate = fa >= 0 ? fa_gate(fa) : gdn_gate(position(plan_.gdn_heads, h));
      heads.push_back(fuse(h, o, gate));
    }
    at::Tensor y = at::cat(heads, 1).matmul(weights_.o.t());
    return weights_.o_bias.defined() ? y + weights_.o_bias : y;
  }

 private:
  static std::int64_t position(const std::vector<std::int64_t>& list, std::int64_t value) {
    const auto it = std::find(list.begin(), list.end(), value);
    return it == list.end() ? -1 : it - list.begin();
  }
  static at::Tensor rms(const at::Tensor& x, double eps) { return x / (x.square().mean(-1, true) + eps).sqrt(); }

  // Rows [block n, block (n+1)) of a projection.
  at::Tensor block(const at::Tensor& w, const at::Tensor& bias, std::int64_t n) const {
    const at::Tensor y = x_.matmul(w.narrow(0, n * d_, d_).t());
    return bias.defined() ? y + bias.narrow(0, n * d_, d_) : y;
  }
  bool shared() const { return options_.branch_weights == BranchWeights::shared; }
  bool gqa() const { return options_.gdn.kv_expand == KvExpand::gqa; }
  std::int64_t group(std::int64_t h) const { return h / base_.group_size(); }

  at::Tensor rope(const at::Tensor& x) const {
    at::Tensor y = at::empty_like(x);
    for (std::int64_t t = 0; t < T_; ++t) {
      for (std::int64_t i = 0; i < d_ / 2; ++i) {
        const float angle = static_cast<float>(t) * frequencies_[i].item<float>();
        const double c = std::cos(angle), s = std::sin(angle);
        const double a = x[t][i].item<double>(), b = x[t][i + d_ / 2].item<double>();
        y[t][i] = a * c - b * s;
        y[t][i + d_ / 2] = b * c + a * s;
      }
    }
    return y;
  }

  at::Tensor full_attention(std::int64_t h, std::int64_t index) const {
    const FaBranch& fa = weights_.fa;
    at::Tensor q, k, v;
    if (shared()) {
      const std::int64_t kv = gqa() ? group(h) : group(h) * base_.group_size();
      q = block(weights_.shared_q, weights_.shared_q_bias, h);
      k = block(weights_.shared_k, weights_.shared_k_bias, kv);
      v = block(weights_.shared_v, weights_.shared_v_bias, kv);
    } else {
      const std::int64_t kv = position(plan_.kv_groups, group(h));
      q = block(fa.q, fa.q_bias, index);
      k = block(fa.k, fa.k_bias, kv);
      v = block(fa.v, fa.v_bias, kv);
    }
    q = rms(q, base_.rms_norm_eps) * fa.q_norm;
    k = rms(k, base_.rms_norm_eps) * fa.k_norm;
    if (options_.fa.rope) {
      q = rope(q);
      k = rope(k);
    }
    std::vector<at::Tensor> rows;
    for (std::int64_t t = 0; t < T_; ++t) {
      const double a = options_.fa.log_scale.a;
      const double s = log_scale_ ? std::log(static_cast<double>(t) + a) / std::log(a) : 1.0;
      const at::Tensor scores = k.narrow(0, 0, t + 1).mv(q[t]) * s / std::sqrt(static_cast<double>(d_));
      rows.push_back(at::softmax(scores, 0).matmul(v.narrow(0, 0, t + 1)));
    }
    return at::stack(rows);
  }

  at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, std::int64_t n) const {
    if (options_.gdn.conv.kernel == 0) {
      return x;
    }
    const at::Tensor w = weight.narrow(0, n * d_, d_);
    at::Tensor y = at::zeros_like(x);
    for (std::int64_t t = 0; t < T_; ++t) {
      for (std::int64_t back = 0; back < 4 && back <= t; ++back) {
        y[t] += w.select(1, 3 - back) * x[t - back];
      }
    }
    return options_.gdn.conv.activation == ConvActivation::silu ? y * at::sigmoid(y) : y;
  }

  at::Tensor delta_rule(std::int64_t h, std::int64_t index) const {
    const GdnBranch& gdn = weights_.gdn;
    const std::int64_t kv = gqa() ? group(h) : index;
    at::Tensor q, k, v;
    if (shared()) {
      const std::int64_t rows = gqa() ? group(h) : h;
      q = block(weights_.shared_q, weights_.shared_q_bias, h);
      k = block(weights_.shared_k, weights_.shared_k_bias, rows);
      v = block(weights_.shared_v, weights_.shared_v_bias, rows);
    } else {
      q = block(gdn.q, gdn.q_bias, index);
      k = block(gdn.k, gdn.k_bias, kv);
      v = block(gdn.v, gdn.v_bias, kv);
    }
    q = convolve(q, gdn.q_conv, index);
    k = convolve(k, gdn.k_conv, kv);
    v = convolve(v, gdn.v_conv, kv);
    if (options_.gdn.qk_norm) {
      q = rms(q, base_.rms_norm_eps) * gdn.q_norm;
      k = rms(k, base_.rms_norm_eps) * gdn.k_norm;
    }
    if (options_.gdn.rope) {
      q = rope(q);
      k = rope(k);
    }
    const auto unit = [](const at::Tensor& x) { return x / (x.square().sum(-1, true) + 1e-6).sqrt(); };
    q = unit(q) / std::sqrt(static_cast<double>(d_));
    k = unit(k);
    const at::Tensor beta_logit = x_.mv(gdn.b[index]) + gdn.b_bias[index];
    const at::Tensor beta = at::sigmoid(beta_logit) * (options_.gdn.neg_eigval ? 2.0 : 1.0);
    const at::Tensor step = (x_.mv(gdn.a[index]) + gdn.dt_bias[index]).exp().log1p();
    const at::Tensor decay = (-gdn.A_log[index].exp() * step).exp();
    at::Tensor S = at::zeros({d_, d_}, x_.options());
    std::vector<at::Tensor> rows;
    for (std::int64_t t = 0; t < T_; ++t) {
      S = decay[t] * S;
      const at::Tensor u = beta[t] * (v[t] - S.t().mv(k[t]));
      S = S + at::outer(k[t], u);
      rows.push_back(S.t().mv(q[t]));
    }
    return at::stack(rows);
  }

  at::Tensor gate_logits(const at::Tensor& w, const at::Tensor& bias, std::int64_t index) const {
    const std::int64_t width = options_.fa.gate == FaGate::headwise ? 1 : d_;
    const at::Tensor z = x_.matmul(w.narrow(0, index * width, width).t());
    return bias.defined() ? z + bias.narrow(0, index * width, width) : z;
  }
  at::Tensor fa_gate(std::int64_t index) const {
    return options_.fa.gate == FaGate::none ? at::Tensor()
                                            : at::sigmoid(gate_logits(weights_.fa.g, weights_.fa.g_bias, index));
  }
  at::Tensor gdn_gate(std::int64_t index) const {
    if (options_.gdn.gate == GdnGate::none) {
      return {};
    }
    const at::Tensor z = gate_logits(weights_.gdn.z, {}, index);
    return options_.gdn.gate == GdnGate::silu ? z * at::sigmoid(z) : at::sigmoid(z);
  }

  at::Tensor fuse(std::int64_t h, const at::Tensor& o, const at::Tensor& gate) const {
    const at::Tensor factor = gate.defined() ? gate : at::ones({1}, o.options());
    if (options_.fusion.mode == FusionMode::none) {
      return gate.defined() ? o * 2 * factor : o;
    }
    const bool first = options_.fusion.gate_pos == GatePosition::pre_norm;
    at::Tensor y = first ? rms(o * factor, options_.fusion.eps) : rms(o, options_.fusion.eps) * factor;
    y = weights_.gamma[h] * y;
    if (options_.fusion.mode == FusionMode::gated) {
      const at::Tensor w = at::softmax(x_.matmul(weights_.fusion.t()), 1).select(1, h);
      y = static_cast<double>(base_.heads) * w.unsqueeze(1) * y;
    }
    return y;
  }

  const HybridConfig& options_;
  const LayerPlan& plan_;
  const Qwen3Config& base_;
  const HybridAttention& weights_;
  at::Tensor x_, frequencies_;
  bool log_scale_;
  std::int64_t T_, d_;
};

}  // namespace hydra::model::test
