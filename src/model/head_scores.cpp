#include "hydrahead/model/head_scores.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"

namespace hydra::model {
namespace {

constexpr std::string_view format = "hydrahead scores 1";

double number(const Json& head, const char* key, const std::string& where) {
  const auto found = head.find(key);
  HYDRA_REQUIRE(found != head.end() && found->is_number(), where, ": ", key, ": found ",
                found == head.end() ? "nothing" : found->dump(), ", expected a number");
  const double value = found->get<double>();
  HYDRA_REQUIRE(std::isfinite(value), where, ": ", key, ": found ", value, ", expected a finite number");
  return value;
}

}  // namespace

std::vector<LayerHead> ranking(const HeadScores& scores) {
  std::vector<LayerHead> order;
  for (std::size_t layer = 0; layer < scores.layers.size(); ++layer) {
    for (std::size_t head = 0; head < scores.layers[layer].size(); ++head) {
      order.emplace_back(layer, head);
    }
  }
  const auto keys = [&](const LayerHead& of) {
    const HeadScore& head = scores.layers[of.first][of.second];
    return std::tuple(head.score, head.effect, head.attribution);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const LayerHead& a, const LayerHead& b) { return keys(a) > keys(b); });
  return order;
}

HeadScores read_scores(const fs::path& file, const Qwen3Config& config, const std::string& teacher_sha256) {
  const Json json = read_json_file(file.string());
  const std::string where = file.string();
  HYDRA_REQUIRE(json.is_object() && json.value("format", Json()) == format, where, ": format: found ",
                json.is_object() ? json.value("format", Json()).dump() : json.type_name(), ", expected \"", format,
                "\"");
  HeadScores scores;
  for (const auto& [key, text] : {std::pair{"teacher_sha256", &scores.teacher_sha256}, {"method", &scores.method}}) {
    HYDRA_REQUIRE(json.contains(key) && json[key].is_string(), where, ": ", key, ": found ",
                  json.value(key, Json()).dump(), ", expected text");
    *text = json[key].get<std::string>();
  }
  HYDRA_REQUIRE(teacher_sha256.empty() || scores.teacher_sha256 == teacher_sha256, where, ": teacher_sha256: found ",
                scores.teacher_sha256, ", expected that of this teacher, ", teacher_sha256);
  const Json layers = json.value("scores", Json());
  HYDRA_REQUIRE(layers.is_array() && static_cast<std::int64_t>(layers.size()) == config.layers, where,
                ": scores: found ", layers.is_array() ? std::to_string(layers.size()) + " layers" : layers.type_name(),
                ", expected ", config.layers, " layers");
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::string at = detail::concat(where, ": scores[", layer, "]");
    HYDRA_REQUIRE(layers[layer].is_array() && static_cast<std::int64_t>(layers[layer].size()) == config.heads, at,
                  ": found ", layers[layer].is_array() ? layers[layer].size() : 0, " heads, expected ", config.heads);
    scores.layers.emplace_back();
    for (std::size_t head = 0; head < layers[layer].size(); ++head) {
      const Json& values = layers[layer][head];
      const std::string of = detail::concat(at, "[", head, "]");
      HYDRA_REQUIRE(values.is_object(), of, ": found ", values.type_name(), ", expected an object");
      scores.layers.back().push_back({.score = number(values, "score", of),
                                      .effect = number(values, "effect", of),
                                      .attribution = number(values, "attribution", of)});
    }
  }
  return scores;
}

Json to_json(const HeadScores& scores) {
  Json json = {{"format", format},
               {"teacher_sha256", scores.teacher_sha256},
               {"method", scores.method},
               {"scores", Json::array()}};
  for (const auto& layer : scores.layers) {
    Json heads = Json::array();
    for (const HeadScore& head : layer) {
      heads.push_back({{"score", head.score}, {"effect", head.effect}, {"attribution", head.attribution}});
    }
    json["scores"].push_back(std::move(heads));
  }
  return json;
}

}  // namespace hydra::model
