// summary.json: every number of a NIAH summary, null with a reason where a cell has no samples.

#include "format.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/eval/niah_summary.hpp"

namespace hydra::eval {
namespace {

Json optional_number(const std::optional<double>& value) { return value ? Json(rounded(*value, 2)) : Json(nullptr); }

Json cell_json(data::NiahTask task, std::int64_t length, const NiahCell& cell) {
  Json json = {{"task", data::task_name(task)}, {"length", length}, {"samples", cell.samples}};
  if (!cell.missing.empty()) {
    json.update({{"score", nullptr}, {"reason", cell.missing}});
    return json;
  }
  json.update({{"score", rounded(cell.score, 2)},
               {"low", rounded(cell.low, 2)},
               {"high", rounded(cell.high, 2)},
               {"strict", rounded(cell.strict, 2)},
               {"precision", rounded(cell.precision, 2)},
               {"f1", rounded(cell.f1, 2)},
               {"squared_error", rounded(cell.squared_error, 4)},
               {"truncated", cell.truncated},
               {"empty", cell.empty},
               {"failed", cell.failed},
               {"tokens", {{"min", cell.tokens_min}, {"mean", rounded(cell.tokens_mean, 1)}, {"max", cell.tokens_max}}},
               {"fill", rounded(cell.fill, 2)}});
  return json;
}

NiahCell cell_from_json(const Json& json) {
  NiahCell cell;
  cell.samples = json.at("samples");
  if (json.at("score").is_null()) {
    cell.missing = json.at("reason");
    return cell;
  }
  cell.score = json.at("score");
  cell.low = json.at("low");
  cell.high = json.at("high");
  cell.strict = json.at("strict");
  cell.precision = json.at("precision");
  cell.f1 = json.at("f1");
  cell.squared_error = json.at("squared_error");
  cell.truncated = json.at("truncated");
  cell.empty = json.at("empty");
  cell.failed = json.at("failed");
  cell.tokens_min = json.at("tokens").at("min");
  cell.tokens_mean = json.at("tokens").at("mean");
  cell.tokens_max = json.at("tokens").at("max");
  cell.fill = json.at("fill");
  return cell;
}

Json mean_json(const NiahMeanRow& row, const std::vector<std::int64_t>& lengths) {
  Json json = {{"name", row.name}, {"tasks", row.of}, {"lengths", Json::array()}};
  for (std::size_t column = 0; column < lengths.size(); ++column) {
    const NiahMean& mean = row.lengths[column];
    Json entry = {{"length", lengths[column]}, {"cells", mean.cells}};
    entry["score"] = mean.cells > 0 ? Json(rounded(mean.score, 2)) : Json(nullptr);
    entry["half_width"] = mean.cells > 0 ? Json(rounded(mean.half, 2)) : Json(nullptr);
    json["lengths"].push_back(std::move(entry));
  }
  return json;
}

NiahMeanRow mean_from_json(const Json& json) {
  NiahMeanRow row{.name = json.at("name"), .of = json.at("tasks"), .lengths = {}};
  for (const Json& entry : json.at("lengths")) {
    NiahMean mean{.cells = entry.at("cells")};
    if (mean.cells > 0) {
      mean.score = entry.at("score");
      mean.half = entry.at("half_width");
    }
    row.lengths.push_back(mean);
  }
  return row;
}

Json depth_json(data::NiahTask task, const DepthTable& table) {
  Json json = {{"task", data::task_name(task)}, {"rows", table.rows}};
  for (const auto& row : table.cells) {
    Json needles = Json::array(), found = Json::array();
    for (const DepthCell& cell : row) {
      needles.push_back(cell.needles);
      found.push_back(cell.needles > 0 ? Json(cell.found) : Json(nullptr));
    }
    json["needles"].push_back(std::move(needles));
    json["found"].push_back(std::move(found));
  }
  return json;
}

DepthTable depth_from_json(const Json& json) {
  DepthTable table{.rows = json.at("rows"), .cells = {}};
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    std::vector<DepthCell> cells;
    for (std::size_t column = 0; column < json.at("needles").at(row).size(); ++column) {
      DepthCell cell{.needles = json.at("needles").at(row).at(column), .found = 0};
      if (cell.needles > 0) {
        cell.found = json.at("found").at(row).at(column);
      }
      cells.push_back(cell);
    }
    table.cells.push_back(std::move(cells));
  }
  return table;
}

NiahSummary summary_from_json(const Json& json) {
  NiahSummary summary;
  summary.name = json.at("name");
  summary.settings = json.at("settings");
  for (const Json& name : json.at("tasks")) {
    const auto task = data::task_of(name.get<std::string>());
    HYDRA_REQUIRE(task, "unknown task ", name.dump());
    summary.tasks.push_back(*task);
  }
  summary.lengths = json.at("lengths").get<std::vector<std::int64_t>>();
  std::size_t next = 0;
  for (std::size_t t = 0; t < summary.tasks.size(); ++t) {
    std::vector<NiahCell> row;
    for (std::size_t column = 0; column < summary.lengths.size(); ++column) {
      row.push_back(cell_from_json(json.at("cells").at(next++)));
    }
    summary.cells.push_back(std::move(row));
    summary.depths.push_back(depth_from_json(json.at("depths").at(t)));
  }
  for (const Json& row : json.at("means")) {
    summary.means.push_back(mean_from_json(row));
  }
  const Json& averages = json.at("averages");
  if (!averages.at("plain").is_null()) {
    summary.average = averages.at("plain").get<double>();
    summary.average_increasing = averages.at("rising_weights").get<double>();
    summary.average_decreasing = averages.at("falling_weights").get<double>();
  }
  summary.threshold = json.at("threshold");
  if (!json.at("effective_length").is_null()) {
    summary.effective_length = json.at("effective_length").get<std::int64_t>();
  }
  summary.samples = json.at("samples");
  summary.empty = json.at("empty");
  summary.truncated = json.at("truncated");
  summary.failed = json.at("failed");
  summary.essay_repeats = json.at("essay_repeats");
  summary.recounted = json.at("recounted");
  for (const Json& prompt : json.at("prompts")) {
    summary.prompts.emplace_back(prompt.at("id"), prompt.at("text"));
  }
  return summary;
}

}  // namespace

Json to_json(const NiahSummary& summary) {
  Json json = {{"format", "hydrahead niah summary 1"}, {"name", summary.name}, {"settings", summary.settings}};
  json["tasks"] = Json::array();
  json["cells"] = Json::array();
  json["depths"] = Json::array();
  for (std::size_t t = 0; t < summary.tasks.size(); ++t) {
    json["tasks"].push_back(data::task_name(summary.tasks[t]));
    for (std::size_t column = 0; column < summary.lengths.size(); ++column) {
      json["cells"].push_back(cell_json(summary.tasks[t], summary.lengths[column], summary.cells[t][column]));
    }
    json["depths"].push_back(depth_json(summary.tasks[t], summary.depths[t]));
  }
  json["lengths"] = summary.lengths;
  json["means"] = Json::array();
  for (const NiahMeanRow& row : summary.means) {
    json["means"].push_back(mean_json(row, summary.lengths));
  }
  json["averages"] = {{"plain", optional_number(summary.average)},
                      {"rising_weights", optional_number(summary.average_increasing)},
                      {"falling_weights", optional_number(summary.average_decreasing)}};
  json["threshold"] = summary.threshold;
  json["effective_length"] = summary.effective_length ? Json(*summary.effective_length) : Json(nullptr);
  json["samples"] = summary.samples;
  json["empty"] = summary.empty;
  json["truncated"] = summary.truncated;
  json["failed"] = summary.failed;
  json["essay_repeats"] = summary.essay_repeats;
  json["recounted"] = summary.recounted;
  json["prompts"] = Json::array();
  for (const auto& [id, text] : summary.prompts) {
    json["prompts"].push_back({{"id", id}, {"text", text}});
  }
  return json;
}

NiahSummary read_niah_summary(const std::filesystem::path& summary_json) {
  const Json json = read_json_file(summary_json.string());
  try {
    return summary_from_json(json);
  } catch (const Json::exception& error) {
    fail_request(summary_json.string(), ": found no NIAH summary of this version: ", error.what());
  }
}

}  // namespace hydra::eval
