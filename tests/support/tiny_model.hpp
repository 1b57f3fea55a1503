#pragma once
// Tiny Qwen3 checkpoints, sound or damaged, for tests of loading: hidden/heads = 64 but head_dim = 128, two query heads
// a KV head, tied embeddings without a stored head, as real models have them.

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/base/random.hpp"

namespace hydra::test {

// The plain config.json with changes; a null drops the key.
inline Json tiny_config(const Json& changes = Json::object()) {
  Json config = {{"architectures", {"Qwen3ForCausalLM"}},
                 {"model_type", "qwen3"},
                 {"attention_bias", false},
                 {"attention_dropout", 0.0},
                 {"bos_token_id", 259},
                 {"eos_token_id", 261},
                 {"hidden_act", "silu"},
                 {"hidden_size", 256},
                 {"head_dim", 128},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"num_hidden_layers", 2},
                 {"intermediate_size", 384},
                 {"initializer_range", 0.02},
                 {"max_position_embeddings", 40960},
                 {"max_window_layers", 2},
                 {"rms_norm_eps", 1e-6},
                 {"rope_theta", 1000000},
                 {"rope_scaling", nullptr},
                 {"sliding_window", nullptr},
                 {"use_sliding_window", false},
                 {"tie_word_embeddings", true},
                 {"torch_dtype", "bfloat16"},
                 {"use_cache", true},
                 {"vocab_size", 512},
                 {"transformers_version", "4.51.0"}};
  for (const auto& [key, value] : changes.items()) {
    if (value.is_null()) {
      config.erase(key);
    } else {
      config[key] = value;
    }
  }
  return config;
}

struct TinyTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
using TinyWeights = std::map<std::string, TinyTensor>;

inline TinyWeights tiny_weights(const Json& config, std::uint64_t seed = 7) {
  RandomStream random(seed, 0);
  const auto size = [&](const char* key) { return config.at(key).get<std::int64_t>(); };
  const std::int64_t D = size("hidden_size"), H = size("num_attention_heads"), Hkv = size("num_key_value_heads");
  const std::int64_t d = config.contains("head_dim") ? size("head_dim") : D / H, I = size("intermediate_size");
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    TinyTensor tensor{{rows, columns}, std::vector<float>(static_cast<std::size_t>(rows * columns))};
    for (float& value : tensor.values) {
      value = static_cast<float>(random.normal() / std::sqrt(static_cast<double>(columns)));
    }
    return tensor;
  };
  const auto norm = [&](std::int64_t n) {
    TinyTensor tensor{{n}, std::vector<float>(static_cast<std::size_t>(n))};
    for (float& value : tensor.values) {
      value = static_cast<float>(1.0 + 0.05 * random.normal());
    }
    return tensor;
  };
  TinyWeights weights;
  weights["model.embed_tokens.weight"] = matrix(size("vocab_size"), D);
  for (std::int64_t layer = 0; layer < size("num_hidden_layers"); ++layer) {
    const std::string p = detail::concat("model.layers.", layer, ".");
    weights[p + "input_layernorm.weight"] = norm(D);
    weights[p + "self_attn.q_proj.weight"] = matrix(H * d, D);
    weights[p + "self_attn.k_proj.weight"] = matrix(Hkv * d, D);
    weights[p + "self_attn.v_proj.weight"] = matrix(Hkv * d, D);
    weights[p + "self_attn.o_proj.weight"] = matrix(D, H * d);
    weights[p + "self_attn.q_norm.weight"] = norm(d);
    weights[p + "self_attn.k_norm.weight"] = norm(d);
    weights[p + "post_attention_layernorm.weight"] = norm(D);
    weights[p + "mlp.gate_proj.weight"] = matrix(I, D);
    weights[p + "mlp.up_proj.weight"] = matrix(I, D);
    weights[p + "mlp.down_proj.weight"] = matrix(D, I);
  }
  weights["model.norm.weight"] = norm(D);
  return weights;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Header text, padded to 8 bytes or to an odd length, and data as the bytes of a safetensors file.
inline std::string glue_safetensors(std::string header, const std::string& data, bool odd = false) {
  while (odd ? header.size() % 2 == 0 : header.size() % 8 != 0) {
    header += ' ';
  }
  std::string bytes;
  for (std::uint64_t length = header.size(), i = 0; i < 8; ++i, length >>= 8) {
    bytes.push_back(static_cast<char>(length & 0xff));
  }
  bytes.append(header).append(data);
  return bytes;
}

struct TinyOptions {
  int shards = 1;
  std::string dtype = "BF16";  // BF16 | F16 | F32
  bool odd = false;            // data at odd addresses
};

inline std::string safetensors_bytes(const TinyWeights& weights, const TinyOptions& options = {}) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, tensor] : weights) {
    const std::size_t begin = data.size();
    for (const float value : tensor.values) {
      if (options.dtype == "F32") {
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
      } else {
        const std::uint16_t bits = options.dtype == "F16" ? c10::Half(value).x : c10::BFloat16(value).x;
        data.append(reinterpret_cast<const char*>(&bits), sizeof bits);
      }
    }
    header[name] = {{"dtype", options.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return glue_safetensors(header.dump(), data, options.odd);
}

inline std::string shard_name(int shard, int shards) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", shard, shards);
  return name;
}

// A checkpoint directory without a tokenizer.
inline void save_tiny(const std::filesystem::path& dir, const Json& config, const TinyWeights& weights,
                      const TinyOptions& options = {}) {
  write_bytes(dir / "config.json", config.dump(1));
  write_bytes(dir / "generation_config.json", R"({"eos_token_id": [261, 259], "pad_token_id": 259})");
  if (options.shards == 1) {
    write_bytes(dir / "model.safetensors", safetensors_bytes(weights, options));
    return;
  }
  std::vector<TinyWeights> parts(static_cast<std::size_t>(options.shards));
  Json weight_map = Json::object();
  std::size_t next = 0;
  for (const auto& [name, tensor] : weights) {
    const std::size_t part = next++ % parts.size();
    parts[part][name] = tensor;
    weight_map[name] = shard_name(static_cast<int>(part) + 1, options.shards);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    write_bytes(dir / shard_name(static_cast<int>(i) + 1, options.shards), safetensors_bytes(parts[i], options));
  }
  const Json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", weight_map}};
  write_bytes(dir / "model.safetensors.index.json", index.dump());
}

// Nine damaged or incomplete weight sets, each in a directory of its own under `root`, in three shards.
struct Damage {
  std::string name;
  bool accepted;
  std::vector<std::string> expected;  // pieces of the message
};
inline std::vector<Damage> make_damaged(const std::filesystem::path& root) {
  const Json config = tiny_config();
  const TinyWeights weights = tiny_weights(config);
  const std::string second = shard_name(2, 3), third = shard_name(3, 3), index = "model.safetensors.index.json";
  std::vector<Damage> cases;
  const auto add = [&](const std::string& name, std::vector<std::string> expected,
                       const std::function<void(const std::filesystem::path& dir, const std::string& bytes)>& damage,
                       bool accepted = false) {
    save_tiny(root / name, config, weights, {.shards = 3});
    damage(root / name, read_bytes(root / name / second));
    cases.push_back({name, accepted, std::move(expected)});
  };
  const auto replace_second = [&](const std::function<std::string(const std::string&)>& change) {
    return
        [=](const std::filesystem::path& dir, const std::string& bytes) { write_bytes(dir / second, change(bytes)); };
  };
  const auto with_length = [](const std::string& bytes, std::uint64_t length) {
    std::string changed = bytes;
    std::memcpy(changed.data(), &length, 8);
    return changed;
  };
  add("last_byte", {second, "bytes expected", "present"},
      replace_second([](const std::string& bytes) { return bytes.substr(0, bytes.size() - 1); }));
  add("half", {second, "bytes expected", "present"},
      replace_second([](const std::string& bytes) { return bytes.substr(0, bytes.size() / 2); }));
  add("pointer", {second, "pointer file, not the weights"}, replace_second([](const std::string&) {
        return "version https://git-lfs.github.com/spec/v1\noid sha256:"
               "0000000000000000000000000000000000000000000000000000000000000000\nsize 919456\n";
      }));
  add("long_header", {second, "header length 1099511627776"},
      replace_second([=](const std::string& bytes) { return with_length(bytes, std::uint64_t{1} << 40); }));
  add("no_header", {second, "header length 0"},
      replace_second([=](const std::string& bytes) { return with_length(bytes, 0); }));
  add("missing_shard", {third, "missing"},
      [&](const std::filesystem::path& dir, const std::string&) { std::filesystem::remove(dir / third); });
  add(
      "stray", {"ignoring model-00004-of-00003.safetensors"},
      [&](const std::filesystem::path& dir, const std::string&) {
        write_bytes(dir / "model-00004-of-00003.safetensors", safetensors_bytes(tiny_weights(config, 99)));
      },
      true);
  add("extra_in_index", {index, "model.layers.1.mlp.extra.weight"},
      [&](const std::filesystem::path& dir, const std::string&) {
        Json content = *parse_json(read_bytes(dir / index));
        content["weight_map"]["model.layers.1.mlp.extra.weight"] = shard_name(1, 3);
        write_bytes(dir / index, content.dump());
      });
  add("trailing", {second, "16 bytes are not covered"},
      replace_second([](std::string bytes) { return bytes.append(16, '\0'); }));
  return cases;
}

}  // namespace hydra::test
