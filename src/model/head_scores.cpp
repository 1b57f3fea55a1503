#include "hydrahead/model/head_scores.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"

namespace hydra::model {
namespace {

constexpr std::string_view format = "hydrahead scores 1";

std::string shown(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() ? "nothing" : found->dump();
}

const std::string& text(const Json& file, const char* key, const std::string& where) {
  const auto found = file.find(key);
  HYDRA_REQUIRE(found != file.end() && found->is_string(), where, ": ", key, ": found ", shown(file, key),
                ", expected text");
  return found->get_ref<const std::string&>();
}

double number(const Json& head, const char* key, const std::string& where) {
  const auto found = head.find(key);
  HYDRA_REQUIRE(found != head.end() && found->is_number(), where, ": ", key, ": found ", shown(head, key),
                ", expected a finite number");
  return found->get<double>();  // JSON has no other ones: the parser refuses NaN and what overflows
}

HeadScore read_head(const Json& values, const std::string& where) {
  HYDRA_REQUIRE(values.is_object(), where, ": found ", values.type_name(), ", expected an object");
  const HeadScore head{.score = number(values, "score", where),
                       .effect = number(values, "effect", where),
                       .attribution = number(values, "attribution", where)};
  HYDRA_REQUIRE(head.score >= 0 && head.score <= 1, where, ": score: found ", head.score, ", expected 0 to 1");
  HYDRA_REQUIRE(values.size() == 3, where, ": found ", values.size(),
                " keys, expected only score, effect and attribution");
  return head;
}

void require_size(const Json& array, std::int64_t size, const char* noun, const std::string& where) {
  HYDRA_REQUIRE(array.is_array() && static_cast<std::int64_t>(array.size()) == size, where, ": found ",
                array.is_array() ? detail::concat(array.size(), " ", noun) : array.type_name(), ", expected ", size,
                " ", noun);
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
  const std::string where = file.string();
  const Json json = read_json_file(where);
  HYDRA_REQUIRE(json.is_object(), where, ": found ", json.type_name(), ", expected an object");
  HYDRA_REQUIRE(json.value("format", Json()) == format, where, ": format: found ", shown(json, "format"),
                ", expected \"", format, "\"");
  HeadScores scores{
      .teacher_sha256 = text(json, "teacher_sha256", where), .method = text(json, "method", where), .layers = {}};
  HYDRA_REQUIRE(teacher_sha256.empty() || scores.teacher_sha256 == teacher_sha256, where, ": teacher_sha256: found ",
                scores.teacher_sha256, ", expected that of this teacher, ", teacher_sha256);
  for (const auto& [key, size] : {std::pair{"layers", config.layers}, {"heads", config.heads}}) {
    HYDRA_REQUIRE(json.value(key, Json()) == size, where, ": ", key, ": found ", shown(json, key),
                  ", expected the teacher's ", size);
  }
  const Json layers = json.value("scores", Json());
  require_size(layers, config.layers, "layers", where + ": scores");
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::string at = detail::concat(where, ": scores[", layer, "]");
    require_size(layers[layer], config.heads, "heads", at);
    scores.layers.emplace_back();
    for (std::size_t head = 0; head < layers[layer].size(); ++head) {
      scores.layers.back().push_back(read_head(layers[layer][head], detail::concat(at, "[", head, "]")));
    }
  }
  return scores;
}

Json to_json(const HeadScores& scores) {
  Json json = {{"format", format},
               {"teacher_sha256", scores.teacher_sha256},
               {"method", scores.method},
               {"layers", scores.layers.size()},
               {"heads", scores.layers.empty() ? 0 : scores.layers.front().size()},
               {"scores", Json::array()}};
  for (const auto& layer : scores.layers) {
    Json heads = Json::array();
    for (const HeadScore& head : layer) {
      HYDRA_CHECK(std::isfinite(head.score) && std::isfinite(head.effect) && std::isfinite(head.attribution),
                  "head scores are finite");
      heads.push_back({{"score", head.score}, {"effect", head.effect}, {"attribution", head.attribution}});
    }
    json["scores"].push_back(std::move(heads));
  }
  return json;
}

}  // namespace hydra::model
