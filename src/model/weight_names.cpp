#include "weight_names.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "hydrahead/base/error.hpp"

namespace hydra::model {
namespace {

using Shape = std::vector<std::int64_t>;

class Table {
 public:
  Table(const ModelConfig& config, Model& model) : config_(config), base_(config.base), model_(model) {}

  std::vector<WeightSlot> build() {
    const std::int64_t D = base_.hidden_size, I = base_.intermediate_size;
    add("model.embed_tokens.weight", model_.embed, {base_.vocab_size, D});
    for (layer_ = 0; layer_ < base_.layers; ++layer_) {
      Layer& layer = model_.layers[layer_];
      prefix_ = "model.layers." + std::to_string(layer_) + ".";
      add("input_layernorm.weight", layer.input_norm, {D});
      attention_ = true;
      prefix_ += "self_attn.";
      if (config_.plan) {
        hybrid(layer.hybrid, config_.plan->layers[layer_], *config_.hybrid);
      } else {
        teacher(layer.teacher);
      }
      attention_ = false;
      prefix_ = "model.layers." + std::to_string(layer_) + ".";
      add("post_attention_layernorm.weight", layer.post_attention_norm, {D});
      add("mlp.gate_proj.weight", layer.gate, {I, D});
      add("mlp.up_proj.weight", layer.up, {I, D});
      add("mlp.down_proj.weight", layer.down, {D, I});
    }
    layer_ = -1;
    prefix_.clear();
    add("model.norm.weight", model_.norm, {D});
    if (!base_.tie_word_embeddings) {
      add("lm_head.weight", model_.head, {base_.vocab_size, D});
    }
    return std::move(slots_);
  }

 private:
  void add(const std::string& name, at::Tensor& tensor, Shape shape, bool keep_fp32 = false) {
    slots_.push_back({{prefix_ + name, &tensor, layer_, attention_, keep_fp32}, std::move(shape)});
  }
  // weight [rows, columns] and, for attention_bias, bias [rows].
  void projection(const std::string& name, at::Tensor& weight, at::Tensor& bias, std::int64_t rows,
                  std::int64_t columns) {
    add(name + ".weight", weight, {rows, columns});
    if (base_.attention_bias) {
      add(name + ".bias", bias, {rows});
    }
  }

  void teacher(TeacherAttention& part) {
    const std::int64_t D = base_.hidden_size, d = base_.head_dim;
    projection("q_proj", part.q, part.q_bias, base_.heads * d, D);
    projection("k_proj", part.k, part.k_bias, base_.kv_heads * d, D);
    projection("v_proj", part.v, part.v_bias, base_.kv_heads * d, D);
    projection("o_proj", part.o, part.o_bias, D, base_.heads * d);
    add("q_norm.weight", part.q_norm, {d});
    add("k_norm.weight", part.k_norm, {d});
  }

  void hybrid(HybridAttention& part, const LayerPlan& plan, const HybridConfig& options) {
    const std::int64_t D = base_.hidden_size, d = base_.head_dim, H = base_.heads;
    if (options.branch_weights == BranchWeights::shared) {
      const std::int64_t kv_rows = (options.gdn.kv_expand == KvExpand::gqa ? base_.kv_heads : H) * d;
      projection("q_proj", part.shared_q, part.shared_q_bias, H * d, D);
      projection("k_proj", part.shared_k, part.shared_k_bias, kv_rows, D);
      projection("v_proj", part.shared_v, part.shared_v_bias, kv_rows, D);
    }
    if (!plan.fa_heads.empty()) {
      full_attention(part.fa, plan, options);
    }
    if (!plan.gdn_heads.empty()) {
      gated_delta(part.gdn, static_cast<std::int64_t>(plan.gdn_heads.size()), options);
    }
    if (options.fusion.mode != FusionMode::none) {
      add("gamma", part.gamma, {H}, true);
    }
    if (options.fusion.mode == FusionMode::gated) {
      add("fusion.weight", part.fusion, {H, D});
    }
    projection("o_proj", part.o, part.o_bias, D, H * d);
  }

  void full_attention(FaBranch& fa, const LayerPlan& plan, const HybridConfig& options) {
    const std::int64_t D = base_.hidden_size, d = base_.head_dim;
    const auto heads = static_cast<std::int64_t>(plan.fa_heads.size());
    const auto groups = static_cast<std::int64_t>(plan.kv_groups.size());
    if (options.branch_weights == BranchWeights::separate) {
      projection("fa.q_proj", fa.q, fa.q_bias, heads * d, D);
      projection("fa.k_proj", fa.k, fa.k_bias, groups * d, D);
      projection("fa.v_proj", fa.v, fa.v_bias, groups * d, D);
    }
    if (options.fa.gate != FaGate::none) {
      const std::int64_t rows = options.fa.gate == FaGate::headwise ? heads : heads * d;
      add("fa.g_proj.weight", fa.g, {rows, D});
      if (options.fa.gate_has_bias) {
        add("fa.g_proj.bias", fa.g_bias, {rows});
      }
    }
    add("fa.q_norm.weight", fa.q_norm, {d});
    add("fa.k_norm.weight", fa.k_norm, {d});
  }

  void gated_delta(GdnBranch& gdn, std::int64_t heads, const HybridConfig& options) {
    const std::int64_t D = base_.hidden_size, d = base_.head_dim;
    const std::int64_t kv_rows = options.gdn.kv_expand == KvExpand::gqa ? base_.kv_heads * d : heads * d;
    if (options.branch_weights == BranchWeights::separate) {
      projection("gdn.q_proj", gdn.q, gdn.q_bias, heads * d, D);
      projection("gdn.k_proj", gdn.k, gdn.k_bias, kv_rows, D);
      projection("gdn.v_proj", gdn.v, gdn.v_bias, kv_rows, D);
    }
    if (options.gdn.gate != GdnGate::none) {
      // fa.gate decides how fine both branches' gates are.
      add("gdn.z_proj.weight", gdn.z, {options.fa.gate == FaGate::headwise ? heads : heads * d, D});
    }
    add("gdn.a_proj.weight", gdn.a, {heads, D});
    add("gdn.b_proj.weight", gdn.b, {heads, D});
    add("gdn.b_proj.bias", gdn.b_bias, {heads});
    if (options.gdn.qk_norm) {
      add("gdn.q_norm.weight", gdn.q_norm, {d});
      add("gdn.k_norm.weight", gdn.k_norm, {d});
    }
    add("gdn.A_log", gdn.A_log, {heads}, true);
    add("gdn.dt_bias", gdn.dt_bias, {heads}, true);
    if (options.gdn.conv.kernel > 0) {
      add("gdn.q_conv1d.weight", gdn.q_conv, {heads * d, options.gdn.conv.kernel});
      add("gdn.k_conv1d.weight", gdn.k_conv, {kv_rows, options.gdn.conv.kernel});
      add("gdn.v_conv1d.weight", gdn.v_conv, {kv_rows, options.gdn.conv.kernel});
    }
  }

  const ModelConfig& config_;
  const Qwen3Config& base_;
  Model& model_;
  std::vector<WeightSlot> slots_;
  std::string prefix_;
  std::int64_t layer_ = -1;
  bool attention_ = false;
};

}  // namespace

std::vector<WeightSlot> weight_table(const ModelConfig& config, Model& model) {
  HYDRA_CHECK(config.plan.has_value() == config.hybrid.has_value(), "plan and options come together");
  HYDRA_CHECK(static_cast<std::int64_t>(model.layers.size()) == config.base.layers, "layers are not made yet");
  return Table(config, model).build();
}

Model empty_model(ModelConfig config, const LoadOptions& options) {
  Model model;
  model.layers.resize(static_cast<std::size_t>(config.base.layers));
  const RopeFrequencies rope = rope_frequencies(config.base);
  model.rope_frequencies = rope.inverse.to(options.device);
  model.rope_attention_factor = rope.attention_factor;
  model.compute_type = options.compute_type;
  model.config = std::move(config);
  return model;
}

at::ScalarType memory_type(const Parameter& parameter, const LoadOptions& options) {
  const bool wide = options.parameter_type == at::kDouble || !parameter.keep_fp32;
  return wide ? options.parameter_type : at::kFloat;
}

bool all_finite(const at::Tensor& tensor) {
  const auto [low, high] = at::aminmax(tensor);
  return std::isfinite(low.item<float>()) && std::isfinite(high.item<float>());
}

std::vector<Parameter> parameters(Model& model) {
  std::vector<Parameter> result;
  for (WeightSlot& slot : weight_table(model.config, model)) {
    if (slot.parameter.tensor->defined()) {
      result.push_back(std::move(slot.parameter));
    }
  }
  return result;
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  Model skeleton;
  skeleton.layers.resize(static_cast<std::size_t>(config.base.layers));
  std::vector<ExpectedTensor> result;
  for (WeightSlot& slot : weight_table(config, skeleton)) {
    result.push_back({std::move(slot.parameter.name), std::move(slot.shape)});
  }
  return result;
}

}  // namespace hydra::model
