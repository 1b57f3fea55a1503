#include "hydrahead/select/score_report.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/model/slot_report.hpp"
#include "score_tables.hpp"

namespace hydra::select {
namespace {

constexpr std::size_t shown_heads = 20;

Json matrix_json(const at::Tensor& matrix) {
  Json rows = Json::array();
  for (std::int64_t row = 0; row < matrix.size(0); ++row) {
    const at::Tensor line = matrix[row].to(at::kDouble).contiguous();
    rows.push_back(Json::array());
    for (std::int64_t column = 0; column < line.numel(); ++column) {
      rows.back().push_back(json_number(line.const_data_ptr<double>()[column]));
    }
  }
  return rows;
}

// A scorer with one role leaves the others out.
void put(Json& json, const char* key, const at::Tensor& matrix) {
  if (matrix.defined()) {
    json[key] = matrix_json(matrix);
  }
}

Json capability_json(const CapabilityScore& capability) {
  Json json = {{"name", capability.name}, {"weight", capability.weight}};
  put(json, "score", capability.score);
  put(json, "strength", capability.strength);
  put(json, "kappa", capability.kappa);
  put(json, "receive", capability.receive);
  if (capability.send.defined()) {
    put(json, "send", capability.send);
    put(json, "sends", capability.sends);
  }
  return json;
}

Json probe_json(const ProbeEffects& probe) {
  Json json = {
      {"probe", probe.probe}, {"capability", probe.capability}, {"pairs", probe.pairs}, {"dropped", probe.dropped}};
  put(json, "receive", probe.receive);
  put(json, "receive_raw", probe.receive_raw);
  put(json, "send", probe.send);
  put(json, "send_raw", probe.send_raw);
  put(json, "attribution", probe.attribution);
  return json;
}

Json report_json(const ScoreReport& report) {
  Json json = model::to_json(report.scores);
  json["model"] = report.model_name;
  json["settings"] = report.settings;
  const model::SlotReport slots = model::count_slots(report.plan, report.scores);
  json["slots"] = {{"rule", report.plan.rule},       {"total", slots.total},
                   {"above_zero", slots.above_zero}, {"by_score", slots.by_score},
                   {"by_effect", slots.by_effect},   {"by_attribution", slots.by_attribution},
                   {"by_order", slots.by_order},     {"given", slots.given}};
  json["left_out"] = report.fused.left_out;
  json["capabilities"] = Json::array();
  for (const CapabilityScore& capability : report.fused.capabilities) {
    json["capabilities"].push_back(capability_json(capability));
  }
  json["probes"] = Json::array();
  for (const ProbeEffects& probe : report.probes) {
    json["probes"].push_back(probe_json(probe));
  }
  return json;
}

// A cell of a CSV file (RFC 4180).
std::string quoted(const std::string& text) {
  std::string cell = "\"";
  for (const char c : text) {
    cell.append(c == '"' ? 2 : 1, c);
  }
  return cell + "\"";
}

void append_effects(std::string& csv, const ProbeEffects& probe, const char* role, const at::Tensor& effects) {
  if (!effects.defined()) {
    return;
  }
  const at::Tensor raw = effects.contiguous();
  const double* value = raw.const_data_ptr<double>();
  for (const std::string& id : probe.pair_ids) {
    const std::string pair = quoted(id) + "," + quoted(probe.capability) + ",";
    for (std::int64_t layer = 0; layer < raw.size(1); ++layer) {
      for (std::int64_t head = 0; head < raw.size(2); ++head, ++value) {
        csv += pair + detail::concat(layer, ",", head, ",", role, ",") +
               number_text(std::clamp(*value, 0.0, 1.0), "%.8g") + "," + number_text(*value, "%.8g") + "\n";
      }
    }
  }
}

// The effects behind every mean (method.md 3.7).
std::string effects_csv(const std::vector<ProbeEffects>& probes) {
  std::string csv = "pair,capability,layer,head,role,clipped,raw\n";
  for (const ProbeEffects& probe : probes) {
    append_effects(csv, probe, "receive", probe.pair_receive);
    append_effects(csv, probe, "send", probe.pair_send);
  }
  return csv;
}

std::string markdown(const TextTable& table) {
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    text += "|";
    for (const std::string& cell : cells) {
      text += " " + cell + " |";
    }
    text += "\n";
  };
  line(table.header);
  line(std::vector<std::string>(table.header.size(), "---"));
  for (const auto& row : table.rows) {
    line(row);
  }
  return text;
}

}  // namespace

std::string write_score_report(const fs::path& dir, const ScoreReport& report) {
  HYDRA_CHECK(report.plan.layers.size() == report.scores.layers.size(), "plan and scores are of one model");
  fs::create_directories(dir);
  const std::string probes = report.probes.empty() ? "" : markdown(probe_table(report)) + "\n";
  const std::string slots = slots_text(report) + "\n";
  write_file_atomic(dir / "scores.md", "# Head scores of " + report.model_name + "\n\n" + slots + "\n" + probes +
                                           markdown(ranking_table(report, SIZE_MAX)));
  write_file_atomic(dir / "report.html", score_page(report));
  if (!report.probes.empty()) {
    write_file_atomic(dir / "effects.csv", effects_csv(report.probes));
  }
  write_file_atomic(dir / "scores.json", report_json(report).dump(1) + "\n");
  return probes + markdown(ranking_table(report, shown_heads)) + "\n" + slots;
}

}  // namespace hydra::select
