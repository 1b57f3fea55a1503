// A head plan from lists of head indices, its place in config.json and what it costs in the cache.

#include "hydrahead/model/head_plan.hpp"

#include <algorithm>

#include "hydrahead/base/error.hpp"

namespace hydra::model {
namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

LayerPlan make_layer(const Qwen3Config& config, std::vector<std::int64_t> fa_heads, const std::string& where) {
  LayerPlan layer;
  std::sort(fa_heads.begin(), fa_heads.end());
  for (std::size_t i = 0; i < fa_heads.size(); ++i) {
    HYDRA_REQUIRE(fa_heads[i] >= 0 && fa_heads[i] < config.heads, where, ": found head ", fa_heads[i],
                  ", expected 0 to ", config.heads - 1);
    HYDRA_REQUIRE(i == 0 || fa_heads[i] != fa_heads[i - 1], where, ": head ", fa_heads[i], " stands twice");
    const std::int64_t group = fa_heads[i] / config.group_size();
    if (layer.kv_groups.empty() || layer.kv_groups.back() != group) {
      layer.kv_groups.push_back(group);
    }
    layer.kv_index.push_back(static_cast<std::int64_t>(layer.kv_groups.size()) - 1);
  }
  for (std::int64_t head = 0; head < config.heads; ++head) {
    if (!std::binary_search(fa_heads.begin(), fa_heads.end(), head)) {
      layer.gdn_heads.push_back(head);
    }
  }
  layer.fa_heads = std::move(fa_heads);
  return layer;
}

Lists read_lists(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  HYDRA_REQUIRE(found != json.end() && found->is_array(), where, ": ", key, ": expected a list of lists, one a layer");
  Lists lists;
  for (const Json& layer : *found) {
    HYDRA_REQUIRE(
        layer.is_array() &&
            std::all_of(layer.begin(), layer.end(), [](const Json& value) { return value.is_number_integer(); }),
        where, ": ", key, "[", lists.size(), "]: found ", layer.dump(-1, ' ', true), ", expected a list of integers");
    lists.push_back(layer.get<std::vector<std::int64_t>>());
  }
  return lists;
}

}  // namespace

std::int64_t HeadPlan::fa_count() const {
  std::int64_t count = 0;
  for (const LayerPlan& layer : layers) {
    count += static_cast<std::int64_t>(layer.fa_heads.size());
  }
  return count;
}

std::int64_t HeadPlan::touched_groups() const {
  std::int64_t count = 0;
  for (const LayerPlan& layer : layers) {
    count += static_cast<std::int64_t>(layer.kv_groups.size());
  }
  return count;
}

HeadPlan make_plan(const Qwen3Config& config, const Lists& fa_heads, const std::string& where) {
  HYDRA_REQUIRE(static_cast<std::int64_t>(fa_heads.size()) == config.layers, where, ": found ", fa_heads.size(),
                " lists of heads, expected one for each of ", config.layers, " layers");
  HeadPlan plan;
  for (std::size_t i = 0; i < fa_heads.size(); ++i) {
    plan.layers.push_back(make_layer(config, fa_heads[i], detail::concat(where, ": layer ", i)));
  }
  return plan;
}

HeadPlan read_plan_json(const Json& json, const Qwen3Config& config, const std::string& where) {
  const Lists fa_heads = read_lists(json, "fa_heads", where);
  HeadPlan plan = make_plan(config, fa_heads, where + ": fa_heads");
  const Lists groups = read_lists(json, "kv_groups", where), index = read_lists(json, "kv_index", where);
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    HYDRA_REQUIRE(layer.fa_heads == fa_heads[i], where, ": fa_heads[", i, "]: expected ascending heads");
    HYDRA_REQUIRE(i < groups.size() && layer.kv_groups == groups[i], where, ": kv_groups[", i,
                  "]: expected the KV groups of fa_heads[", i, "], ", Json(layer.kv_groups).dump());
    HYDRA_REQUIRE(i < index.size() && layer.kv_index == index[i], where, ": kv_index[", i, "]: expected ",
                  Json(layer.kv_index).dump(), ", the places of the heads' groups in kv_groups[", i, "]");
  }
  HYDRA_REQUIRE(groups.size() == plan.layers.size() && index.size() == plan.layers.size(), where,
                ": kv_groups and kv_index: expected one list for each of ", plan.layers.size(), " layers");
  return plan;
}

void write_plan_json(Json& json, const HeadPlan& plan) {
  Json fa_heads = Json::array(), groups = Json::array(), index = Json::array();
  for (const LayerPlan& layer : plan.layers) {
    fa_heads.push_back(layer.fa_heads);
    groups.push_back(layer.kv_groups);
    index.push_back(layer.kv_index);
  }
  json["fa_heads"] = std::move(fa_heads);
  json["kv_groups"] = std::move(groups);
  json["kv_index"] = std::move(index);
}

CacheBytes cache_bytes(const Qwen3Config& config, const HeadPlan& plan, std::int64_t kv_element_bytes,
                       std::int64_t state_element_bytes, bool conv) {
  const std::int64_t d = config.head_dim;
  const std::int64_t gdn_heads = config.layers * config.heads - plan.fa_count();
  CacheBytes bytes;
  bytes.kv_per_token = plan.touched_groups() * 2 * d * kv_element_bytes;
  bytes.constant = gdn_heads * d * d * state_element_bytes;
  if (conv) {
    bytes.constant += gdn_heads * 3 * d * 3 * kv_element_bytes;  // q, k, v of the last three tokens
  }
  return bytes;
}

}  // namespace hydra::model
