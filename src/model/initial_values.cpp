// Initial values of the hybrid attention layer: branch weights are copies of the teacher's rows, never views; new
// linears are 0 or Xavier; decay and gamma start neutral and are calibrated by convert.cpp.

#include "initial_values.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <numeric>
#include <string_view>

#include "hydrahead/base/error.hpp"

namespace hydra::model {

at::TensorOptions fp32_or_wider(const at::Tensor& like) {
  return like.options().dtype(like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

at::Tensor from_values(const std::vector<double>& values, const at::TensorOptions& options) {
  return at::tensor(values, at::kDouble).to(options.device(), c10::typeMetaToScalarType(options.dtype()));
}

double inverse_softplus(double x) { return x + std::log(-std::expm1(-x)); }

namespace {

using Heads = std::vector<std::int64_t>;

// Rows of the given heads (or KV groups) of a weight [rows d, ...]; undefined stays undefined.
at::Tensor head_rows(const at::Tensor& weight, const Heads& heads, std::int64_t d) {
  if (!weight.defined()) {
    return {};
  }
  std::vector<at::Tensor> parts{weight.slice(0, 0, 0)};
  for (const std::int64_t head : heads) {
    parts.push_back(weight.slice(0, head * d, (head + 1) * d));
  }
  return at::cat(parts);
}

Heads groups_of(const Heads& heads, std::int64_t group_size) {
  Heads groups;
  for (const std::int64_t head : heads) {
    groups.push_back(head / group_size);
  }
  return groups;
}

Heads all_of(std::int64_t count) {
  Heads heads(count);
  std::iota(heads.begin(), heads.end(), 0);
  return heads;
}

at::Tensor constant(const at::Tensor& like, std::vector<std::int64_t> shape, double value) {
  return at::full(shape, value, like.options());
}

// Xavier-uniform with gain 2^-2.5, as FLA and HALO start new linears.
at::Tensor xavier(const at::Tensor& like, std::int64_t rows, std::int64_t columns, RandomStream& random) {
  const double bound = std::exp2(-2.5) * std::sqrt(6.0 / static_cast<double>(rows + columns));
  std::vector<double> values(static_cast<std::size_t>(rows * columns));
  for (double& value : values) {
    value = (2.0 * random.uniform() - 1.0) * bound;
  }
  return from_values(values, like.options()).view({rows, columns});
}

at::Tensor identity_taps(const at::Tensor& like, std::int64_t channels) {
  at::Tensor taps = at::zeros({channels, 4}, like.options());
  taps.select(1, 3).fill_(1.0);
  return taps;
}

}  // namespace

void initialise_layer(const Layer& from, const LayerPlan& plan, const Qwen3Config& config, const HybridConfig& options,
                      RandomStream& random, Layer& to) {
  const std::int64_t d = config.head_dim, hidden = config.hidden_size;
  const auto fa_count = static_cast<std::int64_t>(plan.fa_heads.size());
  const auto gdn_count = static_cast<std::int64_t>(plan.gdn_heads.size());
  const TeacherAttention& teacher = from.teacher;
  HybridAttention& hybrid = to.hybrid;
  to.input_norm = from.input_norm.clone();
  to.post_attention_norm = from.post_attention_norm.clone();
  to.gate = from.gate.clone();
  to.up = from.up.clone();
  to.down = from.down.clone();
  hybrid.o = teacher.o.clone();
  hybrid.o_bias = teacher.o_bias.defined() ? teacher.o_bias.clone() : at::Tensor();

  const bool shared = options.branch_weights == BranchWeights::shared;
  const bool gqa = options.gdn.kv_expand == KvExpand::gqa;
  if (shared) {
    const Heads groups = gqa ? all_of(config.kv_heads) : groups_of(all_of(config.heads), config.group_size());
    hybrid.shared_q = teacher.q.clone();
    hybrid.shared_k = head_rows(teacher.k, groups, d);
    hybrid.shared_v = head_rows(teacher.v, groups, d);
    hybrid.shared_q_bias = teacher.q_bias.defined() ? teacher.q_bias.clone() : at::Tensor();
    hybrid.shared_k_bias = head_rows(teacher.k_bias, groups, d);
    hybrid.shared_v_bias = head_rows(teacher.v_bias, groups, d);
  }
  if (fa_count > 0) {
    FaBranch& fa = hybrid.fa;
    if (!shared) {
      fa.q = head_rows(teacher.q, plan.fa_heads, d);
      fa.k = head_rows(teacher.k, plan.kv_groups, d);
      fa.v = head_rows(teacher.v, plan.kv_groups, d);
      fa.q_bias = head_rows(teacher.q_bias, plan.fa_heads, d);
      fa.k_bias = head_rows(teacher.k_bias, plan.kv_groups, d);
      fa.v_bias = head_rows(teacher.v_bias, plan.kv_groups, d);
    }
    fa.q_norm = teacher.q_norm.clone();
    fa.k_norm = teacher.k_norm.clone();
    if (options.fa.gate != FaGate::none) {
      const std::int64_t rows = options.fa.gate == FaGate::elementwise ? fa_count * d : fa_count;
      fa.g = constant(teacher.q, {rows, hidden}, 0.0);
      if (options.fa.gate_has_bias) {
        fa.g_bias = constant(teacher.q, {rows}, options.fa.gate_bias);
      }
    }
  }
  if (gdn_count > 0) {
    GdnBranch& gdn = hybrid.gdn;
    const Heads groups = gqa ? all_of(config.kv_heads) : groups_of(plan.gdn_heads, config.group_size());
    if (!shared) {
      gdn.q = head_rows(teacher.q, plan.gdn_heads, d);
      gdn.k = head_rows(teacher.k, groups, d);
      gdn.v = head_rows(teacher.v, groups, d);
      gdn.q_bias = head_rows(teacher.q_bias, plan.gdn_heads, d);
      gdn.k_bias = head_rows(teacher.k_bias, groups, d);
      gdn.v_bias = head_rows(teacher.v_bias, groups, d);
    }
    if (options.gdn.qk_norm) {
      gdn.q_norm = teacher.q_norm.clone();
      gdn.k_norm = teacher.k_norm.clone();
    }
    const bool random_start = options.gdn.init == GdnInit::random;
    const auto new_linear = [&](std::int64_t rows, bool dead_at_zero) {
      return random_start || dead_at_zero ? xavier(teacher.q, rows, hidden, random)
                                          : constant(teacher.q, {rows, hidden}, 0.0);
    };
    if (options.gdn.gate != GdnGate::none) {
      const std::int64_t rows = options.fa.gate == FaGate::headwise ? gdn_count : gdn_count * d;
      gdn.z = new_linear(rows, options.gdn.gate == GdnGate::silu);
    }
    gdn.a = new_linear(gdn_count, false);
    gdn.b = new_linear(gdn_count, false);
    gdn.b_bias = constant(teacher.q, {gdn_count}, 0.0);
    gdn.A_log = at::zeros({gdn_count}, fp32_or_wider(teacher.q));
    gdn.dt_bias = at::zeros({gdn_count}, fp32_or_wider(teacher.q));
    if (random_start) {
      std::vector<double> decay, step;
      for (std::int64_t h = 0; h < gdn_count; ++h) {
        decay.push_back(std::log(16.0 * (1.0 - random.uniform())));  // (0, 16]: never log 0
        step.push_back(inverse_softplus(1e-3 * std::pow(100.0, random.uniform())));
      }
      gdn.A_log = from_values(decay, gdn.A_log.options());
      gdn.dt_bias = from_values(step, gdn.dt_bias.options());
    }
    if (options.gdn.conv.kernel > 0) {
      gdn.q_conv = identity_taps(teacher.q, gdn_count * d);
      gdn.k_conv = identity_taps(teacher.q, static_cast<std::int64_t>(groups.size()) * d);
      gdn.v_conv = identity_taps(teacher.q, static_cast<std::int64_t>(groups.size()) * d);
    }
  }
  if (options.fusion.mode != FusionMode::none) {
    hybrid.gamma = at::ones({config.heads}, fp32_or_wider(teacher.q));
  }
  if (options.fusion.mode == FusionMode::gated) {
    hybrid.fusion = constant(teacher.q, {config.heads, hidden}, 0.0);
  }
}

std::string initial_value_of(const std::string& name, const HybridConfig& options) {
  const auto ends = [&](std::string_view suffix) { return name.ends_with(suffix); };
  const bool random = options.gdn.init == GdnInit::random;
  if (ends("self_attn.gamma")) {
    return options.fusion.gamma_init == GammaInit::one ? "1" : "c E[rms(O)] / E[gate], calibrated";
  }
  if (ends("fa.g_proj.bias")) {
    return detail::concat(options.fa.gate_bias);
  }
  if (ends("gdn.A_log")) {
    return random ? "ln U(0, 16)" : "0";
  }
  if (ends("gdn.dt_bias")) {
    return random ? "softplus^-1 of log-uniform [1e-3, 0.1]" : "softplus^-1(ln 2 / attention distance), calibrated";
  }
  if (ends("gdn.b_proj.bias")) {
    return random ? "0" : "logit(0.3 + 0.4 concentration), calibrated";
  }
  if (ends("conv1d.weight")) {
    return "identity (last tap 1)";
  }
  if (ends("gdn.z_proj.weight") && (random || options.gdn.gate == GdnGate::silu)) {
    return "xavier, gain 2^-2.5";
  }
  if (ends("gdn.a_proj.weight") || ends("gdn.b_proj.weight")) {
    return random ? "xavier, gain 2^-2.5" : "0";
  }
  if (ends("fa.g_proj.weight") || ends("gdn.z_proj.weight") || ends("fusion.weight")) {
    return "0";
  }
  return {};  // copied from the teacher
}

}  // namespace hydra::model
