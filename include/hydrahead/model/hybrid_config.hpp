#pragma once
// The hybrid attention layer's options (method.md section 4), as the config section `hybrid` and as keys of an exported
// config.json.

#include <cstdint>
#include <string>

#include "hydrahead/base/json.hpp"
#include "hydrahead/config/binder.hpp"

namespace hydra::model {

enum class BranchWeights { separate, shared };
enum class FaGate { elementwise, headwise, none };
enum class LogScaleMode { inference, stage3_and_inference, off };
enum class GdnGate { sigmoid, silu, none };
enum class KvExpand { mha, gqa };
enum class GdnInit { calibrated, random };
enum class ConvActivation { none, silu };
enum class FusionMode { scale, none, gated };
enum class GatePosition { post_norm, pre_norm };
enum class GammaInit { calibrated, one };

struct LogScaleConfig {
  LogScaleMode mode = LogScaleMode::inference;
  double a = 500.0;  // s_t = ln(t + a) / ln(a)
};
struct FaConfig {
  bool rope = false;
  FaGate gate = FaGate::elementwise;
  bool gate_has_bias = false;  // gate_bias: none | value
  double gate_bias = 0.0;
  LogScaleConfig log_scale;
};
struct ConvConfig {
  std::int64_t kernel = 0;  // 0 | 4
  ConvActivation activation = ConvActivation::none;
};
struct GdnConfig {
  GdnGate gate = GdnGate::sigmoid;
  bool rope = true;
  bool qk_norm = true;
  KvExpand kv_expand = KvExpand::mha;
  bool neg_eigval = false;
  GdnInit init = GdnInit::calibrated;  // not stored with a checkpoint
  ConvConfig conv;
};
struct FusionConfig {
  FusionMode mode = FusionMode::scale;
  GatePosition gate_pos = GatePosition::post_norm;
  double eps = 1e-6;
  GammaInit gamma_init = GammaInit::calibrated;  // not stored with a checkpoint
};
struct HybridConfig {
  BranchWeights branch_weights = BranchWeights::separate;
  FaConfig fa;
  GdnConfig gdn;
  FusionConfig fusion;
};

void describe(config::Binder& binder, HybridConfig& value);

// The keys of method.md section 10: log_scale, gdn, fusion, fa, branch_weights. Unknown values and keys are refused.
Json write_hybrid_json(const HybridConfig& config);
HybridConfig read_hybrid_json(const Json& config, const std::string& where);

}  // namespace hydra::model
