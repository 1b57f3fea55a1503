#include "hydrahead/select/score_report.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <set>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/metrics/grid_svg.hpp"
#include "hydrahead/metrics/heatmap_svg.hpp"
#include "hydrahead/metrics/html.hpp"

namespace hydra::select {
namespace {

using model::LayerHead;

constexpr std::size_t shown_heads = 20;

std::string number(double value, const char* format = "%.3f") {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

Json matrix_json(const at::Tensor& matrix) {
  Json rows = Json::array();
  for (std::int64_t row = 0; row < matrix.size(0); ++row) {
    rows.push_back(Json::array());
    for (std::int64_t column = 0; column < matrix.size(1); ++column) {
      rows.back().push_back(json_number(matrix[row][column].item<double>()));
    }
  }
  return rows;
}

std::set<LayerHead> chosen_heads(const model::HeadPlan& plan) {
  std::set<LayerHead> chosen;
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
    for (const std::int64_t head : plan.layers[layer].fa_heads) {
      chosen.emplace(layer, head);
    }
  }
  return chosen;
}

const model::HeadScore& score_of(const model::HeadScores& scores, const LayerHead& head) {
  return scores.layers[head.first][head.second];
}

// --- tables ---------------------------------------------------------------------------------------------------
using Rows = std::vector<std::vector<std::string>>;

std::string markdown(const std::vector<std::string>& header, const Rows& rows) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) {
      text += " " + cell + " |";
    }
    return text + "\n";
  };
  std::string text = line(header) + "|";
  for (std::size_t i = 0; i < header.size(); ++i) {
    text += "---|";
  }
  text += "\n";
  for (const auto& row : rows) {
    text += line(row);
  }
  return text;
}

std::vector<std::string> ranking_header(const ScoreReport& report) {
  std::vector<std::string> header = {"rank", "layer", "head", "score", "effect", "attribution"};
  for (const CapabilityScore& capability : report.fused.capabilities) {
    header.push_back(capability.name + " (kappa)");
  }
  header.emplace_back("full attention");
  return header;
}

Rows ranking_rows(const ScoreReport& report, std::size_t count) {
  const std::set<LayerHead> chosen = chosen_heads(report.plan);
  const std::vector<LayerHead> order = model::ranking(report.scores);
  Rows rows;
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
    const auto [layer, head] = order[i];
    const model::HeadScore& score = score_of(report.scores, order[i]);
    std::vector<std::string> row = {std::to_string(i + 1),        std::to_string(layer),
                                    std::to_string(head),         number(score.score),
                                    number(score.effect, "%.4f"), number(score.attribution, "%.4f")};
    for (const CapabilityScore& capability : report.fused.capabilities) {
      row.push_back(number(capability.score[layer][head].item<double>()) + " (" +
                    number(capability.kappa[layer][head].item<double>(), "%.2f") + ")");
    }
    row.emplace_back(chosen.count(order[i]) > 0 ? "yes" : "no");
    rows.push_back(std::move(row));
  }
  return rows;
}

const std::vector<std::string> probe_header = {"probe", "capability", "pairs", "dropped", "largest effect"};

Rows probe_rows(const ScoreReport& report) {
  Rows rows;
  for (const ProbeEffects& probe : report.probes) {
    const auto heads = probe.receive_raw.size(1);
    std::string most = "-";
    if (probe.pairs > 0) {
      const auto at = probe.receive_raw.argmax().item<std::int64_t>();
      most =
          detail::concat(number(probe.receive_raw.max().item<double>()), ", layer ", at / heads, " head ", at % heads);
    }
    rows.push_back({probe.probe, probe.capability, std::to_string(probe.pairs), std::to_string(probe.dropped), most});
  }
  return rows;
}

std::string slots_text(const ScoreReport& report) {
  const SlotCount slots = count_slots(report.scores, report.plan);
  std::string text =
      detail::concat("Rule ", report.plan.rule, ": ", slots.total, " heads keep full attention; ", slots.above_zero,
                     " of them have a score above 0, ", slots.by_score, " a score above that of every other head.");
  if (2 * slots.above_zero < slots.total) {
    text += detail::concat(" Most places were filled by the keys for ties (effect, attribution, order): with ",
                           slots.above_zero, " heads or fewer the plan would say the same about retrieval.");
  }
  for (const std::string& name : report.fused.left_out) {
    text += detail::concat(" Capability ", name,
                           " is left out: no pair of it reached select.min_margin, or its weight is 0.");
  }
  return text;
}

// --- page -----------------------------------------------------------------------------------------------------
std::string heads_svg(const std::string& title, const at::Tensor& values, const std::set<LayerHead>& chosen) {
  metrics::Grid grid{.title = title,
                     .x_name = "head",
                     .y_name = "layer",
                     .rows = static_cast<int>(values.size(0)),
                     .columns = static_cast<int>(values.size(1)),
                     .values = {},
                     .high = 0};
  for (std::int64_t layer = 0; layer < values.size(0); ++layer) {
    for (std::int64_t head = 0; head < values.size(1); ++head) {
      grid.values.push_back(values[layer][head].item<double>());
    }
  }
  grid.high = std::max(1e-12, *std::max_element(grid.values.begin(), grid.values.end()));
  grid.tooltip = [all = grid.values, columns = grid.columns, chosen](int row, int column) {
    return detail::concat("layer ", row, " head ", column, ": ",
                          number(all[static_cast<std::size_t>(row * columns + column)]),
                          chosen.count({row, column}) > 0 ? ", full attention" : "");
  };
  return metrics::grid_svg(grid);
}

at::Tensor matrix_of(const model::HeadScores& scores, double model::HeadScore::*member) {
  at::Tensor matrix = at::zeros(
      {static_cast<std::int64_t>(scores.layers.size()), static_cast<std::int64_t>(scores.layers.front().size())},
      at::kDouble);
  for (std::size_t layer = 0; layer < scores.layers.size(); ++layer) {
    for (std::size_t head = 0; head < scores.layers[layer].size(); ++head) {
      matrix[layer][head] = scores.layers[layer][head].*member;
    }
  }
  return matrix;
}

std::string html_of(const std::vector<std::string>& header, const Rows& rows) {
  std::vector<std::vector<metrics::HtmlCell>> cells;
  for (const auto& row : rows) {
    cells.emplace_back();
    for (const std::string& text : row) {
      cells.back().push_back({.text = text});
    }
  }
  return metrics::html_table(header, cells);
}

std::string page(const ScoreReport& report) {
  const std::set<LayerHead> chosen = chosen_heads(report.plan);
  const std::string title = "Head scores of " + report.model_name;
  at::Tensor kept = at::zeros_like(matrix_of(report.scores, &model::HeadScore::score));
  for (const auto& [layer, head] : chosen) {
    kept[layer][head] = 1;
  }
  std::string body = "<h1>" + metrics::escape_xml(title) + "</h1>\n";
  body += metrics::html_section(
      "Scores and plan",
      heads_svg("score", matrix_of(report.scores, &model::HeadScore::score), chosen) +
          heads_svg("full attention", kept, chosen) +
          heads_svg("attribution", matrix_of(report.scores, &model::HeadScore::attribution).clamp_min(0), chosen) +
          metrics::html_paragraph(slots_text(report)));
  for (const CapabilityScore& capability : report.fused.capabilities) {
    body += metrics::html_section("Capability " + capability.name,
                                  heads_svg("score", capability.score, chosen) +
                                      heads_svg("effect in the stronger role", capability.strength, chosen) +
                                      heads_svg("kappa", capability.kappa, chosen));
  }
  for (const ProbeEffects& probe : report.probes) {
    if (probe.pairs > 0) {
      body += metrics::html_section(
          "Probe " + probe.probe,
          heads_svg("as receiver", probe.receive, chosen) +
              (probe.send.defined() ? heads_svg("as sender", probe.send, chosen) : std::string()));
    }
  }
  body += metrics::html_section("Ranking", html_of(ranking_header(report), ranking_rows(report, SIZE_MAX)));
  if (!report.probes.empty()) {
    body += metrics::html_section("Probes", html_of(probe_header, probe_rows(report)));
    body += metrics::html_details("Settings", report.settings.dump(1));
  }
  return metrics::html_page(title, body);
}

Json report_json(const ScoreReport& report) {
  Json json = model::to_json(report.scores);
  json["model"] = report.model_name;
  json["settings"] = report.settings;
  json["capabilities"] = Json::array();
  for (const CapabilityScore& capability : report.fused.capabilities) {
    json["capabilities"].push_back({{"name", capability.name},
                                    {"weight", capability.weight},
                                    {"score", matrix_json(capability.score)},
                                    {"strength", matrix_json(capability.strength)},
                                    {"kappa", matrix_json(capability.kappa)}});
  }
  json["left_out"] = report.fused.left_out;
  json["probes"] = Json::array();
  for (const ProbeEffects& probe : report.probes) {
    Json one = {{"probe", probe.probe},
                {"capability", probe.capability},
                {"pairs", probe.pairs},
                {"dropped", probe.dropped},
                {"receive", matrix_json(probe.receive)},
                {"receive_raw", matrix_json(probe.receive_raw)},
                {"attribution", matrix_json(probe.attribution)}};
    if (probe.send.defined()) {
      one["send"] = matrix_json(probe.send);
      one["send_raw"] = matrix_json(probe.send_raw);
    }
    json["probes"].push_back(std::move(one));
  }
  return json;
}

}  // namespace

SlotCount count_slots(const model::HeadScores& scores, const model::HeadPlan& plan) {
  const std::set<LayerHead> chosen = chosen_heads(plan);
  double best_other = -1;
  for (const LayerHead& head : model::ranking(scores)) {
    if (chosen.count(head) == 0) {
      best_other = std::max(best_other, score_of(scores, head).score);
    }
  }
  SlotCount count{.total = static_cast<std::int64_t>(chosen.size())};
  for (const LayerHead& head : chosen) {
    const double score = score_of(scores, head).score;
    count.by_score += score > best_other ? 1 : 0;
    count.above_zero += score > 0 ? 1 : 0;
  }
  return count;
}

std::string write_score_report(const fs::path& dir, const ScoreReport& report) {
  fs::create_directories(dir);
  const std::string probes = report.probes.empty() ? "" : markdown(probe_header, probe_rows(report)) + "\n";
  const std::string slots = slots_text(report) + "\n";
  write_file_atomic(dir / "scores.json", report_json(report).dump(1) + "\n");
  write_file_atomic(dir / "scores.md", "# Head scores of " + report.model_name + "\n\n" + slots + "\n" + probes +
                                           markdown(ranking_header(report), ranking_rows(report, SIZE_MAX)));
  write_file_atomic(dir / "report.html", page(report));
  return probes + markdown(ranking_header(report), ranking_rows(report, shown_heads)) + "\n" + slots;
}

}  // namespace hydra::select
