// Conversion of a teacher: backbone unchanged, branch weights copied from the teacher's rows, new parameters by the
// table of method.md 4.4. dt_bias and the bias of b come from attention statistics; gamma from the amplitude of the
// teacher's head outputs and, for GDN heads, the least-squares scale of the GDN outputs that the copied weights give.

#include "hydrahead/model/convert.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "attention.hpp"
#include "calibration.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/base/random.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "initial_values.hpp"

namespace hydra::model {
namespace {

double logit(double p) { return std::log(p / (1.0 - p)); }
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// dt_bias: the half-life ln 2 / decay equals the head's attention distance. b: beta between 0.3 and 0.7 by
// concentration.
void set_decay(const HeadStatistics& statistics, const LayerPlan& plan, const HybridConfig& options, GdnBranch& gdn,
               at::Tensor& exact_b_bias) {
  std::vector<double> dt_bias, b_bias;
  for (const std::int64_t head : plan.gdn_heads) {
    const double rate = statistics.distance[head] > 0.0 ? std::log(2.0) / statistics.distance[head] : 5.0;
    dt_bias.push_back(inverse_softplus(std::clamp(rate, 1e-3, 5.0)));
    const double beta = 0.3 + 0.4 * statistics.concentration[head];
    b_bias.push_back(logit(options.gdn.neg_eigval ? beta / 2.0 : beta));
  }
  gdn.dt_bias = from_values(dt_bias, gdn.dt_bias.options());
  exact_b_bias = from_values(b_bias, fp32_or_wider(gdn.b_bias));
}

// Sums over calibration rows for gamma of the GDN heads [H_L].
struct GdnSums {
  at::Tensor overlap;      // sum <O_teacher, RMSNorm(O_GDN)>
  at::Tensor gate_square;  // sum of mean over d of gate^2
  std::int64_t rows = 0;
};

void add_gdn_sums(const Model& hybrid, std::int64_t layer, const CalibrationSlice& slice, GdnSums& sums) {
  const LayerPlan& plan = hybrid.config.plan->layers[layer];
  const HybridConfig& options = *hybrid.config.hybrid;
  const SharedProjections shared =
      shared_projections(hybrid.layers[layer].hybrid, slice.input, hybrid.config.base.head_dim);
  const BranchOutput gdn = gdn_branch(hybrid, layer, slice.input, shared, {slice.sequences, slice.tables});
  const at::Tensor normed = ops::rms_norm(gdn.heads, {}, options.fusion.eps).to(at::kDouble);
  const at::Tensor target = ops::select_heads(slice.head_outputs, plan.gdn_heads).to(at::kDouble);
  sums.overlap += target.mul(normed).sum(at::IntArrayRef{0, 2});
  if (gdn.gate.defined()) {
    sums.gate_square += ops::gate_values(gdn).to(at::kDouble).square().mean(-1).sum(0);
  }
  sums.rows += slice.input.size(0);
}

// gamma_h = c_h E[rms(O_h)] / E[gate_h].
at::Tensor gamma_values(const HeadStatistics& statistics, const LayerPlan& plan, const Qwen3Config& config,
                        const HybridConfig& options, const GdnSums& sums, const at::TensorOptions& type) {
  const bool gate_scales =
      options.fusion.gate_pos == GatePosition::post_norm;  // before the norm a constant gate cancels
  std::vector<double> gamma(config.heads);
  const double fa_gate = options.fa.gate_has_bias ? sigmoid(options.fa.gate_bias) : 0.5;
  for (const std::int64_t head : plan.fa_heads) {
    gamma[head] = statistics.rms[head] / (gate_scales && options.fa.gate != FaGate::none ? fa_gate : 1.0);
  }
  if (plan.gdn_heads.empty()) {
    return from_values(gamma, type);
  }
  const at::Tensor overlap = sums.overlap.to(at::kCPU), gate_square = sums.gate_square.to(at::kCPU);
  for (std::size_t i = 0; i < plan.gdn_heads.size(); ++i) {
    const std::int64_t head = plan.gdn_heads[i];
    const double rms = statistics.rms[head];
    const auto rows = static_cast<double>(sums.rows);
    const double norm = rows * static_cast<double>(config.head_dim) * rms;
    const double c = norm > 0.0 ? std::clamp(overlap.const_data_ptr<double>()[i] / norm, 0.1, 1.0) : 1.0;
    const bool scaled = gate_scales && options.gdn.gate != GdnGate::none;
    const double gate = scaled ? std::sqrt(gate_square.const_data_ptr<double>()[i] / rows) : 1.0;  // sigmoid(0): 1/2
    gamma[head] = c * rms / gate;
  }
  return from_values(gamma, type);
}

}  // namespace

bool needs_calibration(const HybridConfig& hybrid) {
  return hybrid.gdn.init == GdnInit::calibrated ||
         (hybrid.fusion.mode != FusionMode::none && hybrid.fusion.gamma_init == GammaInit::calibrated);
}

Conversion convert(const Model& teacher, const HeadPlan& plan, const HybridConfig& hybrid,
                   const CalibrationTokens& calibration, std::int64_t seed) {
  HYDRA_REQUIRE(!teacher.is_hybrid(),
                "convert: found a hybrid checkpoint, expected a teacher; it was converted already");
  const Qwen3Config& config = teacher.config.base;
  HYDRA_CHECK(static_cast<std::int64_t>(plan.layers.size()) == config.layers);
  const c10::NoGradGuard no_grad;
  Conversion result;
  Model& model = result.hybrid;
  model.config = {config, hybrid, plan};
  model.embed = teacher.embed.clone();
  model.norm = teacher.norm.clone();
  model.head = config.tie_word_embeddings ? model.embed : teacher.head.clone();
  model.rope_frequencies = teacher.rope_frequencies;
  model.rope_attention_factor = teacher.rope_attention_factor;
  model.compute_type = teacher.compute_type;
  model.layers.resize(teacher.layers.size());
  for (std::int64_t i = 0; i < config.layers; ++i) {
    RandomStream random(static_cast<std::uint64_t>(seed), 0x636f6e76, static_cast<std::uint32_t>(i));
    initialise_layer(teacher.layers[i], plan.layers[i], config, hybrid, random, model.layers[i]);
  }

  if (needs_calibration(hybrid)) {
    const bool calibrate_gamma =
        hybrid.fusion.mode != FusionMode::none && hybrid.fusion.gamma_init == GammaInit::calibrated;
    HeadStatistics statistics;
    GdnSums sums;
    at::Tensor rounded_b_bias;
    const auto begin_layer = [&](std::int64_t layer, const HeadStatistics& found) {
      statistics = found;
      const LayerPlan& split = plan.layers[layer];
      const auto count = static_cast<std::int64_t>(split.gdn_heads.size());
      sums = {at::zeros({count}, teacher.embed.options().dtype(at::kDouble)),
              at::zeros({count}, teacher.embed.options().dtype(at::kDouble)), 0};
      GdnBranch& gdn = model.layers[layer].hybrid.gdn;
      if (count > 0 && hybrid.gdn.init == GdnInit::calibrated) {
        at::Tensor exact;
        set_decay(found, split, hybrid, gdn, exact);
        rounded_b_bias = exact.to(gdn.b_bias.scalar_type());
        gdn.b_bias = exact;  // gamma is fitted with the unrounded bias
      }
    };
    const auto on_slice = [&](std::int64_t layer, const CalibrationSlice& slice) {
      const LayerPlan& split = plan.layers[layer];
      if (calibrate_gamma && !split.gdn_heads.empty()) {
        add_gdn_sums(model, layer, slice, sums);
      }
    };
    const auto end_layer = [&](std::int64_t layer) {
      HybridAttention& attention = model.layers[layer].hybrid;
      if (calibrate_gamma) {
        attention.gamma = gamma_values(statistics, plan.layers[layer], config, hybrid, sums, attention.gamma.options());
      }
      if (rounded_b_bias.defined()) {
        attention.gdn.b_bias = rounded_b_bias;
        rounded_b_bias.reset();
      }
    };
    walk_teacher(teacher, calibration, begin_layer, on_slice, end_layer);
  }

  for (const Parameter& parameter : parameters(model)) {
    const std::string value = initial_value_of(parameter.name, hybrid);
    if (!value.empty()) {
      result.new_parameters.push_back({parameter.name, value});
    }
    HYDRA_CHECK(at::isfinite(*parameter.tensor).all().item<bool>(), parameter.name, " is not finite after conversion");
  }
  return result;
}

}  // namespace hydra::model
