#include "hydrahead/model/qwen3_config.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"

namespace hydra::model {
namespace {

// Typed access to the keys of one JSON object; every message names file, key, what was found and what was expected.
class Keys {
 public:
  Keys(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    HYDRA_REQUIRE(object.is_object(), where_, ": found no JSON object");
  }

  // Null counts as absent, as in transformers.
  const Json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  template <class... Expected>
  [[noreturn]] void refuse(const char* key, const Expected&... expected) const {
    const Json* found = find(key);
    fail_request(where_, ": ", key, ": found ", found == nullptr ? "nothing" : found->dump(-1, ' ', true),
                 ", expected ", expected...);
  }
  std::int64_t size(const char* key, std::int64_t most) const {
    const Json* found = find(key);
    if (found == nullptr || !found->is_number_integer() || found->get<std::int64_t>() < 1 ||
        found->get<std::int64_t>() > most) {
      refuse(key, "an integer from 1 to ", most);
    }
    return found->get<std::int64_t>();
  }
  double positive(const char* key, std::optional<double> fallback) const {
    const Json* found = find(key);
    if (found == nullptr && fallback) {
      return *fallback;
    }
    if (found == nullptr || !found->is_number() || !(found->get<double>() > 0) ||
        !std::isfinite(found->get<double>())) {
      refuse(key, "a positive number");
    }
    return found->get<double>();
  }
  bool flag(const char* key, bool fallback) const {
    const Json* found = find(key);
    if (found != nullptr && !found->is_boolean()) {
      refuse(key, "true or false");
    }
    return found == nullptr ? fallback : found->get<bool>();
  }
  std::string text(const char* key, const std::string& fallback) const {
    const Json* found = find(key);
    if (found != nullptr && !found->is_string()) {
      refuse(key, "a string");
    }
    return found == nullptr ? fallback : found->get<std::string>();
  }
  const Json& object() const { return object_; }
  const std::string& where() const { return where_; }

 private:
  const Json& object_;
  std::string where_;
};

// rope_scaling (old, beside rope_theta) or rope_parameters (new, holding rope_theta).
// `theta` is the base given outside, 0 for none.
RopeConfig read_rope_object(const Keys& keys, double theta, std::int64_t max_position) {
  for (const auto& [key, value] : keys.object().items()) {
    constexpr std::string_view known[] = {"rope_theta",
                                          "rope_type",
                                          "type",
                                          "factor",
                                          "original_max_position_embeddings",
                                          "beta_fast",
                                          "beta_slow",
                                          "attention_factor",
                                          "truncate",
                                          "partial_rotary_factor"};
    if (std::find(std::begin(known), std::end(known), key) == std::end(known) && !value.is_null()) {
      keys.refuse(key.c_str(), "no such key");
    }
  }
  RopeConfig rope;
  rope.theta = keys.find("rope_theta") == nullptr && theta > 0 ? theta : keys.positive("rope_theta", std::nullopt);
  rope.type = keys.text("rope_type", keys.text("type", "default"));
  if (keys.find("rope_type") != nullptr && keys.text("type", rope.type) != rope.type) {
    keys.refuse("type", "the same as rope_type, ", rope.type);
  }
  if (rope.type != "default" && rope.type != "yarn") {
    keys.refuse(keys.find("rope_type") != nullptr ? "rope_type" : "type", "default or yarn");
  }
  if (keys.positive("partial_rotary_factor", 1.0) != 1.0) {
    keys.refuse("partial_rotary_factor", "1");
  }
  if (rope.type == "yarn") {
    rope.factor = keys.positive("factor", std::nullopt);
    if (rope.factor < 1.0) {
      keys.refuse("factor", "at least 1");
    }
    rope.original_max_position = keys.find("original_max_position_embeddings") == nullptr
                                     ? max_position
                                     : keys.size("original_max_position_embeddings", std::int64_t{1} << 40);
    rope.beta_fast = keys.positive("beta_fast", rope.beta_fast);
    rope.beta_slow = keys.positive("beta_slow", rope.beta_slow);
    if (keys.find("attention_factor") != nullptr) {
      rope.attention_factor = keys.positive("attention_factor", std::nullopt);
    }
    if (!keys.flag("truncate", true)) {
      keys.refuse("truncate", "true");
    }
  }
  return rope;
}

bool same_rope(const RopeConfig& a, const RopeConfig& b) {
  return a.theta == b.theta && a.type == b.type && a.factor == b.factor &&
         a.original_max_position == b.original_max_position && a.beta_fast == b.beta_fast &&
         a.beta_slow == b.beta_slow && a.attention_factor == b.attention_factor;
}

RopeConfig read_rope(const Keys& keys, std::int64_t max_position) {
  const Json* parameters = keys.find("rope_parameters");
  const Json* scaling = keys.find("rope_scaling");
  // There is no default for the base.
  const double theta =
      keys.find("rope_theta") != nullptr || parameters == nullptr ? keys.positive("rope_theta", std::nullopt) : 0;
  if (parameters == nullptr) {
    const Json plain = Json::object();
    return read_rope_object(Keys(scaling != nullptr ? *scaling : plain, keys.where() + ": rope_scaling"), theta,
                            max_position);
  }
  const RopeConfig rope = read_rope_object(Keys(*parameters, keys.where() + ": rope_parameters"), theta, max_position);
  HYDRA_REQUIRE(theta == 0 || theta == rope.theta, keys.where(), ": rope_theta is ", theta, " but rope_parameters say ",
                rope.theta);
  if (scaling != nullptr) {
    HYDRA_REQUIRE(
        same_rope(rope, read_rope_object(Keys(*scaling, keys.where() + ": rope_scaling"), rope.theta, max_position)),
        keys.where(), ": rope_scaling and rope_parameters contradict each other");
  }
  return rope;
}

std::string read_dtype(const Keys& keys) {
  const std::string old_name = keys.text("torch_dtype", ""), new_name = keys.text("dtype", "");
  HYDRA_REQUIRE(old_name.empty() || new_name.empty() || old_name == new_name, keys.where(), ": torch_dtype is ",
                old_name, " but dtype is ", new_name);
  const std::string dtype = new_name.empty() ? old_name : new_name;
  HYDRA_REQUIRE(dtype.empty() || dtype == "bfloat16" || dtype == "float16" || dtype == "float32", keys.where(),
                ": dtype: found ", dtype, ", expected bfloat16, float16 or float32");
  return dtype.empty() ? "bfloat16" : dtype;
}

std::vector<std::int64_t> read_ids(const Json* value, const std::string& where) {
  std::vector<std::int64_t> ids;
  if (value == nullptr) {
    return ids;
  }
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& id : list) {
    HYDRA_REQUIRE(id.is_number_integer() && id.get<std::int64_t>() >= 0, where, ": eos_token_id: found ",
                  value->dump(-1, ' ', true), ", expected a token id or a list of them");
    ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

// generation_config's ids come first, then those of config.json: all of them stop.
std::vector<std::int64_t> read_stop_ids(const Keys& keys, const Json& generation_config) {
  std::vector<std::int64_t> ids;
  if (!generation_config.is_null()) {
    const Keys generation(generation_config, "generation_config.json beside " + keys.where());
    ids = read_ids(generation.find("eos_token_id"), generation.where());
  }
  const bool given = !ids.empty();
  for (const std::int64_t id : read_ids(keys.find("eos_token_id"), keys.where())) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
      if (given) {
        log_warning(keys.where(), ": eos_token_id ", id, " is not in generation_config.json; both stop generation");
      }
      ids.push_back(id);
    }
  }
  return ids;
}

void refuse_unsupported(const Keys& keys, std::int64_t layers) {
  if (keys.text("hidden_act", "silu") != "silu") {
    keys.refuse("hidden_act", "silu");
  }
  if (keys.flag("use_sliding_window", false)) {
    keys.refuse("use_sliding_window", "false: sliding windows are not supported");
  }
  if (keys.find("quantization_config") != nullptr) {
    keys.refuse("quantization_config", "nothing: quantized checkpoints are not supported");
  }
  if (const Json* types = keys.find("layer_types"); types != nullptr) {
    if (!types->is_array() || types->size() != static_cast<std::size_t>(layers)) {
      keys.refuse("layer_types", "one entry for each of ", layers, " layers");
    }
    for (const Json& type : *types) {
      if (type != "full_attention") {
        keys.refuse("layer_types", "full_attention in every layer");
      }
    }
  }
  const Json* dropout = keys.find("attention_dropout");
  if (dropout != nullptr && *dropout != 0) {
    log_warning(keys.where(), ": attention_dropout ", dropout->dump(-1, ' ', true), " has no effect: none is applied");
  }
}

}  // namespace

Qwen3Config read_qwen3_config(const Json& config, const Json& generation_config, const std::string& where) {
  const Keys keys(config, where);
  const std::string type = keys.text("model_type", "");
  if (type != "qwen3" && type != "hydrahead") {
    keys.refuse("model_type", "qwen3 or hydrahead");
  }
  constexpr std::int64_t large = std::int64_t{1} << 24;
  Qwen3Config result;
  result.vocab_size = keys.size("vocab_size", large);
  result.hidden_size = keys.size("hidden_size", large);
  result.intermediate_size = keys.size("intermediate_size", large);
  result.layers = keys.size("num_hidden_layers", 4096);
  result.heads = keys.size("num_attention_heads", 4096);
  result.kv_heads = keys.size("num_key_value_heads", 4096);
  if (result.heads % result.kv_heads != 0) {
    keys.refuse("num_key_value_heads", "a divisor of num_attention_heads ", result.heads);
  }
  if (keys.find("head_dim") != nullptr) {
    result.head_dim = keys.size("head_dim", 4096);
  } else {
    result.head_dim = result.hidden_size / result.heads;
    HYDRA_REQUIRE(result.head_dim * result.heads == result.hidden_size, where,
                  ": head_dim is missing, and hidden_size ", result.hidden_size,
                  " is no multiple of num_attention_heads ", result.heads);
  }
  HYDRA_REQUIRE(result.head_dim % 2 == 0, where, ": head_dim: found ", result.head_dim, ", expected an even number");
  result.max_position = keys.size("max_position_embeddings", std::int64_t{1} << 40);
  result.rms_norm_eps = keys.positive("rms_norm_eps", std::nullopt);
  result.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  result.attention_bias = keys.flag("attention_bias", false);
  refuse_unsupported(keys, result.layers);
  result.rope = read_rope(keys, result.max_position);
  result.dtype = read_dtype(keys);
  result.stop_ids = read_stop_ids(keys, generation_config);
  result.source = config;
  return result;
}

Json write_qwen3_config(const Qwen3Config& config) {
  Json json = config.source.is_object() ? config.source : Json::object();
  const auto set_default = [&](const char* key, const Json& value) {
    if (!json.contains(key)) {
      json[key] = value;
    }
  };
  set_default("architectures", Json::array({"Qwen3ForCausalLM"}));
  set_default("model_type", "qwen3");
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.kv_heads;
  json["head_dim"] = config.head_dim;
  set_default("hidden_act", "silu");
  json["max_position_embeddings"] = config.max_position;
  json["rms_norm_eps"] = config.rms_norm_eps;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["attention_bias"] = config.attention_bias;
  json["use_sliding_window"] = false;

  Json scaling = nullptr;
  Json parameters = {{"rope_theta", config.rope.theta}, {"rope_type", config.rope.type}};
  if (config.rope.type == "yarn") {
    scaling = {{"rope_type", "yarn"},
               {"factor", config.rope.factor},
               {"original_max_position_embeddings", config.rope.original_max_position},
               {"beta_fast", config.rope.beta_fast},
               {"beta_slow", config.rope.beta_slow}};
    if (config.rope.attention_factor > 0) {
      scaling["attention_factor"] = config.rope.attention_factor;
    }
    parameters.update(scaling);
  }
  json["rope_theta"] = config.rope.theta;
  json["rope_scaling"] = scaling;
  json["rope_parameters"] = parameters;
  json["dtype"] = config.dtype;
  json["torch_dtype"] = config.dtype;
  if (!config.stop_ids.empty()) {
    set_default("eos_token_id", config.stop_ids);
  }
  return json;
}

}  // namespace hydra::model
