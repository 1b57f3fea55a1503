#pragma once
// A Qwen3 teacher or its HydraHead hybrid: plain structs of tensors and free functions over flat rows.
// N rows, D hidden, H heads, d head_dim, V vocabulary. Parameters may be fp32 masters while activations are bf16.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hydrahead/io/hf_model_dir.hpp"
#include "hydrahead/model/head_plan.hpp"
#include "hydrahead/model/hybrid_config.hpp"
#include "hydrahead/model/qwen3_config.hpp"
#include "hydrahead/ops/sequences.hpp"

namespace hydra::model {

struct ModelConfig {
  Qwen3Config base;
  std::optional<HybridConfig> hybrid;  // set together with plan; absent: a teacher
  std::optional<HeadPlan> plan;
};

// Undefined tensors are parts that the options leave out.
struct TeacherAttention {
  at::Tensor q, k, v, o;                      // [H d, D], [Hkv d, D] x2, [D, H d]
  at::Tensor q_bias, k_bias, v_bias, o_bias;  // attention_bias only
  at::Tensor q_norm, k_norm;                  // [d]
};
struct FaBranch {
  at::Tensor q, k, v, g;  // [H_F d, D], [touched d, D] x2, [H_F d or H_F, D]
  at::Tensor q_bias, k_bias, v_bias, g_bias;
  at::Tensor q_norm, k_norm;
};
struct GdnBranch {
  at::Tensor q, k, v, z;  // [H_L d, D] x4 (gqa: k, v [Hkv d, D]; headwise z [H_L, D])
  at::Tensor q_bias, k_bias, v_bias;
  at::Tensor a, b, b_bias;  // [H_L, D] x2, [H_L]
  at::Tensor q_norm, k_norm, A_log, dt_bias;
  at::Tensor q_conv, k_conv, v_conv;  // [rows, 4]
};
struct HybridAttention {
  FaBranch fa;
  GdnBranch gdn;
  at::Tensor shared_q, shared_k, shared_v, shared_q_bias, shared_k_bias, shared_v_bias;  // branch_weights: shared
  at::Tensor gamma, fusion;                                                              // [H], [H, D]
  at::Tensor o, o_bias;  // [D, H d], columns in original head order
};
struct Layer {
  at::Tensor input_norm, post_attention_norm;  // [D]
  TeacherAttention teacher;                    // used when the model has no plan
  HybridAttention hybrid;                      // used when it has one
  at::Tensor gate, up, down;                   // MLP: [I, D] x2, [D, I]
};
// Called around the passes of a training step, so that collectives run beside the work on other layers. `layer` is
// the number of layers for the final norm and the head, -1 for the embedding.
struct LayerHooks {
  std::function<void(std::int64_t layer)> before_forward;
  // The gradients of the layer's parameters are complete. Called on autograd's thread.
  std::function<void(std::int64_t layer)> after_backward;
};
struct Model {
  ModelConfig config;
  at::Tensor embed;  // [V, D]
  std::vector<Layer> layers;
  at::Tensor norm;                     // [D]
  at::Tensor head;                     // [V, D]; the same tensor as embed when tied
  at::Tensor rope_frequencies;         // [d/2] fp32, on the device
  double rope_attention_factor = 1.0;  // yarn; multiplies cos and sin
  at::ScalarType compute_type = at::kFloat;
  LayerHooks hooks;  // empty but while training on several ranks

  bool is_hybrid() const { return config.plan.has_value(); }
};

// --- parameters -------------------------------------------------------------------------------------------
struct Parameter {
  std::string name;    // as on disk
  at::Tensor* tensor;  // into the model
  std::int64_t layer;  // -1: embedding, final norm, head
  bool attention;      // belongs to the hybrid attention module (trained in align; lr.scale.attention)
  bool keep_fp32;      // gamma, A_log, dt_bias
};
// Every defined parameter once (a tied head is not repeated), in a fixed order. The one table of names
// (weight_names.cpp).
std::vector<Parameter> parameters(Model& model);
// Parameters that method.md section 10 expects for these options, with shapes: for loading and for checks.
struct ExpectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
};
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

// --- loading and saving -----------------------------------------------------------------------------------
struct LoadOptions {
  at::Device device = at::kCPU;
  at::ScalarType parameter_type =
      at::kFloat;                            // storage in memory; keep_fp32 parameters stay fp32 (fp64 if this is fp64)
  at::ScalarType compute_type = at::kFloat;  // activations
};
// A teacher or hybrid directory. Every parameter has a source: missing, extra or misshapen tensors end in a UserError.
Model load_model(const std::filesystem::path& dir, const LoadOptions& options);
Model load_model(const io::HfModelDir& dir, const LoadOptions& options);
ModelConfig read_model_config(const io::HfModelDir& dir);
// Which stored tensor each expected one is read from, after the checks that load_model makes; reads headers only (and a
// tied model's redundant stored head). For verbs that check a directory without loading it.
std::map<std::string, std::string> match_tensors(const io::HfModelDir& dir, const ModelConfig& config);

// Inverse frequencies [d/2] in fp32 on the CPU, and the factor on cosine and sine.
struct RopeFrequencies {
  at::Tensor inverse;
  double attention_factor = 1.0;
};
RopeFrequencies rope_frequencies(const Qwen3Config& config);

// A model of the right shapes with random weights (benchmarks, tests).
Model random_model(const ModelConfig& config, const LoadOptions& options, std::int64_t seed);

struct SaveOptions {
  std::string dtype = {};  // bfloat16 | float16 | float32; empty: as the source
  std::uint64_t max_shard_bytes = 5ull << 30;
  std::filesystem::path tokenizer_source = {};          // tokenizer and generation files are copied from here
  std::map<std::string, std::string> extra_files = {};  // further text files of the directory: name, content
};
// Writes a complete HF-style directory, atomically, and loads it back as a check. Non-finite weights are refused.
void save_model(Model& model, const std::filesystem::path& dir, const SaveOptions& options);

// What rank `rank` of `ranks` writes of such a directory, which exists: the weight files rank, rank + ranks, ...; rank
// 0 also the rest. `weights` gives those of the named parameters that are wanted, in host memory, and is called once.
using WeightsOnHost = std::function<io::NamedTensors(const std::function<bool(const std::string& name)>& wanted)>;
void save_model_part(const ModelConfig& config, const std::filesystem::path& dir, const SaveOptions& options, int rank,
                     int ranks, const WeightsOnHost& weights);

// --- forward ----------------------------------------------------------------------------------------------
struct DecodeState;

struct ForwardOptions {
  bool log_scale = false;        // s_t on the FA queries
  bool recompute = false;        // per-layer activation checkpointing
  DecodeState* state = nullptr;  // KV and GDN states are read and advanced (no autograd); its lengths are the caller's
  bool last_rows = false;        // with a state: the last layer's result only for each sequence's last row, [S, D]
  // Called for each layer with the attention sublayer's input [N, D] (after the norm) and output [N, D] (after W_O).
  std::function<void(std::int64_t layer, const at::Tensor& input, const at::Tensor& output)> attention_tap;
  // Called with the residual stream before layer 0, and after each layer.
  std::function<void(std::int64_t layer, const at::Tensor& hidden)> hidden_tap;
};

// Tables of the rows' positions: cosines and sines [N, d/2] fp32, and for a hybrid s_t = ln(t + a) / ln(a) [N].
struct RotaryTables {
  at::Tensor cos, sin;
  at::Tensor log_scale;
};
RotaryTables rotary_tables(const Model& model, const ops::Sequences& sequences);

at::Tensor embed_tokens(const Model& model, const at::Tensor& ids);  // [N] -> [N, D]
// The attention sublayer of one layer: x [N, D] is its normed input; result after W_O, before the residual.
at::Tensor attention_sublayer(const Model& model, std::int64_t layer, const at::Tensor& x,
                              const ops::Sequences& sequences, const RotaryTables& tables,
                              const ForwardOptions& options);
// One whole block on the residual stream [N, D].
at::Tensor transformer_layer(const Model& model, std::int64_t layer, const at::Tensor& hidden,
                             const ops::Sequences& sequences, const RotaryTables& tables,
                             const ForwardOptions& options);
// Hidden states after the final norm [N, D].
at::Tensor forward_hidden(const Model& model, const at::Tensor& ids, const ops::Sequences& sequences,
                          const ForwardOptions& options = {});
// Logits of chosen rows [M, D] -> [M, V] in fp32 (fp64 models: fp64).
at::Tensor logits_of(const Model& model, const at::Tensor& hidden_rows);

// Per-head outputs O_h of a teacher layer before W_O, for calibration and head scoring: [N, H, d].
at::Tensor teacher_head_outputs(const Model& model, std::int64_t layer, const at::Tensor& x,
                                const ops::Sequences& sequences, const RotaryTables& tables);

}  // namespace hydra::model
