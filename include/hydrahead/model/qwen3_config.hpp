#pragma once
// The backbone's config.json, old spelling (rope_theta, rope_scaling, torch_dtype) or new (rope_parameters, dtype).

#include <cstdint>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"

namespace hydra::model {

struct RopeConfig {
  double theta = 0.0;            // no default: a missing base is an error
  std::string type = "default";  // default | yarn; anything else is refused
  double factor = 1.0;           // yarn: used as given, never recomputed
  std::int64_t original_max_position = 0;
  double beta_fast = 32.0, beta_slow = 1.0;
  double attention_factor = 0.0;  // 0: 0.1 ln(factor) + 1
};

struct Qwen3Config {
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0;
  std::int64_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t max_position = 0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  RopeConfig rope;
  std::string dtype = "bfloat16";      // storage type of the checkpoint: bfloat16 | float16 | float32
  std::vector<std::int64_t> stop_ids;  // generation_config's eos, then config's; all are honoured
  Json source;                         // the file as read: unknown keys survive export

  std::int64_t group_size() const { return heads / kv_heads; }
};

// Reads both spellings, refuses contradictions, unknown rope types, and sliding windows that are switched on.
// `where` stands in messages. generation_config may be null.
Qwen3Config read_qwen3_config(const Json& config, const Json& generation_config, const std::string& where);

// The keys of config.json for export; head_dim, RoPE and tying are always stated, RoPE in both spellings.
Json write_qwen3_config(const Qwen3Config& config);

}  // namespace hydra::model
