// Reading a checkpoint: its configuration, the match between stored and expected tensors, and the model itself. Every
// parameter has a source and every stored tensor a use; whatever does not fit ends the load with its name.

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "hydrahead/base/log.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "weight_names.hpp"

namespace hydra::model {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// "; the nearest stored name is ..." among names that nothing has claimed, if one is near.
std::string nearest_hint(const std::string& name, const std::set<std::string>& unclaimed) {
  std::string best;
  std::size_t best_distance = 12;
  for (const std::string& candidate : unclaimed) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best.empty() ? "" : "; the nearest stored name is " + best;
}

// Which configuration keys a shape comes from, for the tensors that users trip over.
std::string shape_reason(const std::string& name, const Qwen3Config& config) {
  const bool queries = name.find("q_proj") != std::string::npos || name.find("o_proj") != std::string::npos;
  if (queries) {
    return detail::concat(" (num_attention_heads ", config.heads, ", head_dim ", config.head_dim, ")");
  }
  if (name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos) {
    return detail::concat(" (num_key_value_heads ", config.kv_heads, ", head_dim ", config.head_dim, ")");
  }
  return "";
}

bool ends_with(const std::string& name, std::string_view end) { return std::string_view(name).ends_with(end); }

std::string dtype_key(const std::string& stored) {
  return stored == "BF16" ? "bfloat16" : stored == "F16" ? "float16" : stored == "F32" ? "float32" : "";
}

// A tied model may store its head again: an equal one is dropped, another refused.
void drop_tied_head(const io::HfModelDir& dir, const std::string& embedding, std::set<std::string>& unclaimed) {
  constexpr const char* head = "lm_head.weight";
  if (unclaimed.count(head) == 0) {
    return;
  }
  HYDRA_REQUIRE(at::equal(dir.load(head), dir.load(embedding)), dir.path().string(), ": tensor ", head,
                " differs from ", embedding, ", but config.json says tie_word_embeddings true");
  log_info(dir.path().string(), ": dropping ", head, ", which equals ", embedding, " (tie_word_embeddings)");
  unclaimed.erase(head);
}

void drop_rotary_buffers(const io::HfModelDir& dir, std::set<std::string>& unclaimed) {
  const auto before = unclaimed.size();
  std::string first;
  for (auto it = unclaimed.begin(); it != unclaimed.end();) {
    if (ends_with(*it, "rotary_emb.inv_freq")) {
      first = first.empty() ? *it : first;
      it = unclaimed.erase(it);
    } else {
      ++it;
    }
  }
  if (unclaimed.size() < before) {
    log_info(dir.path().string(), ": ignoring ", before - unclaimed.size(), " stored RoPE table(s), first ", first,
             ": frequencies come from config.json");
  }
}

}  // namespace

ModelConfig read_model_config(const io::HfModelDir& dir) {
  const std::string where = (dir.path() / "config.json").string();
  ModelConfig config;
  config.base = read_qwen3_config(dir.config(), dir.generation_config(), where);
  const bool has_plan = dir.config().contains("fa_heads");
  const bool is_hybrid = dir.config().at("model_type") == "hydrahead";
  HYDRA_REQUIRE(has_plan == is_hybrid, where, ": model_type is ", dir.config().at("model_type").dump(),
                " and fa_heads ", has_plan ? "is there" : "is missing",
                "; a converted checkpoint has model_type hydrahead and fa_heads");
  if (is_hybrid) {
    const Json format = dir.config().value("hydrahead_format", Json(hybrid_format));
    HYDRA_REQUIRE(format == hybrid_format, where, ": hydrahead_format: found ", format.dump(-1, ' ', true),
                  ", expected ", hybrid_format, ", which this version reads");
    config.hybrid = read_hybrid_json(dir.config(), where);
    config.plan = read_plan_json(dir.config(), config.base, where);
  }
  for (const char* name : {"model.embed_tokens.weight", "embed_tokens.weight"}) {
    const std::string stored = dir.contains(name) ? dtype_key(dir.info(name).dtype) : "";
    if (!stored.empty() && stored != config.base.dtype) {
      log_info(where, ": says ", config.base.dtype, ", the weights are stored as ", stored, ": ", stored, " counts");
      config.base.dtype = stored;
    }
  }
  return config;
}

std::map<std::string, std::string> match_tensors(const io::HfModelDir& dir, const ModelConfig& config) {
  const std::string where = dir.path().string();
  const std::vector<std::string> names = dir.names();
  std::set<std::string> unclaimed(names.begin(), names.end());
  const bool bare =
      dir.contains("embed_tokens.weight") &&
      std::none_of(names.begin(), names.end(), [](const auto& name) { return name.starts_with("model."); });
  if (bare) {
    log_info(where, ": names lack the prefix \"model.\"; they are read as a backbone's");
  }
  const auto stored_name = [&](const std::string& name) {
    return bare && name.starts_with("model.") ? name.substr(6) : name;
  };
  std::map<std::string, std::string> match;
  std::vector<ExpectedTensor> missing;
  for (const ExpectedTensor& expected : expected_tensors(config)) {
    const std::string stored = stored_name(expected.name);
    if (!dir.contains(stored)) {
      missing.push_back(expected);
      continue;
    }
    const io::TensorInfo& info = dir.info(stored);
    HYDRA_REQUIRE(info.shape == expected.shape, where, ": tensor ", stored, ": shape ", shape_text(info.shape),
                  ", expected ", shape_text(expected.shape), " from config.json",
                  shape_reason(expected.name, config.base));
    HYDRA_REQUIRE(!dtype_key(info.dtype).empty(), where, ": tensor ", stored, ": stored as ", info.dtype,
                  ", expected BF16, F16 or F32");
    match[expected.name] = stored;
    unclaimed.erase(stored);
  }
  for (const ExpectedTensor& tensor : missing) {
    HYDRA_REQUIRE(
        tensor.name != "lm_head.weight", where,
        ": tensor lm_head.weight is missing, and config.json says tie_word_embeddings false (set it to true to "
        "use the embedding as head)");
    fail_request(where, ": tensor ", stored_name(tensor.name), " is missing, expected shape ", shape_text(tensor.shape),
                 nearest_hint(tensor.name, unclaimed),
                 missing.size() > 1 ? detail::concat(" (", missing.size() - 1, " more are missing)") : "");
  }
  drop_rotary_buffers(dir, unclaimed);
  if (config.base.tie_word_embeddings) {
    drop_tied_head(dir, match.at("model.embed_tokens.weight"), unclaimed);
  }
  HYDRA_REQUIRE(unclaimed.empty(), where, ": tensor ", *unclaimed.begin(), " has no place in a model of ",
                config.base.layers, " layers with these options (", unclaimed.size(), " such tensor(s))");
  return match;
}

Model load_model(const std::filesystem::path& dir, const LoadOptions& options) {
  return load_model(io::HfModelDir::open(dir), options);
}

Model load_model(const io::HfModelDir& dir, const LoadOptions& options) {
  Model model = empty_model(read_model_config(dir), options);
  const auto match = match_tensors(dir, model.config);
  for (const WeightSlot& slot : weight_table(model.config, model)) {
    const std::string& name = match.at(slot.parameter.name);
    const at::Tensor stored = dir.load(name);
    HYDRA_REQUIRE(all_finite(stored), dir.path().string(), ": tensor ", name, " holds values that are not finite");
    // A copy in any case: the stored tensor may be a read-only view of the file.
    *slot.parameter.tensor =
        stored.to(at::TensorOptions().device(options.device).dtype(memory_type(slot.parameter, options)), false, true);
  }
  if (model.config.base.tie_word_embeddings) {
    model.head = model.embed;
  }
  return model;
}

}  // namespace hydra::model
