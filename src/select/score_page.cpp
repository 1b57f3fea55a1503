// report.html: heat maps of every head, the plan's heads framed, and the tables; without any outside resource.

#include <ATen/ATen.h>

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "hydrahead/metrics/grid_svg.hpp"
#include "hydrahead/metrics/heatmap_svg.hpp"
#include "hydrahead/metrics/html.hpp"
#include "score_tables.hpp"

namespace hydra::select {
namespace {

using Frames = std::vector<std::pair<int, int>>;

Frames frames_of(const model::HeadPlan& plan) {
  Frames frames;
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
    for (const std::int64_t head : plan.layers[layer].fa_heads) {
      frames.emplace_back(static_cast<int>(layer), static_cast<int>(head));
    }
  }
  return frames;
}

at::Tensor matrix_of(const model::HeadScores& scores, double model::HeadScore::*member) {
  std::vector<double> values;
  for (const auto& layer : scores.layers) {
    for (const model::HeadScore& head : layer) {
      values.push_back(head.*member);
    }
  }
  return at::tensor(values, at::kDouble).view({static_cast<std::int64_t>(scores.layers.size()), -1});
}

// values [L, H]. The scale ends at the largest absolute value; negative ones are red.
std::string heads_svg(const std::string& title, const at::Tensor& values, const Frames& frames) {
  const at::Tensor contiguous = values.contiguous();
  const double* first = contiguous.const_data_ptr<double>();
  metrics::Grid grid{.title = title,
                     .x_name = "head",
                     .y_name = "layer",
                     .rows = static_cast<int>(values.size(0)),
                     .columns = static_cast<int>(values.size(1)),
                     .values = {first, first + contiguous.numel()}};
  grid.high = std::max(1e-12, values.abs().max().item<double>());
  grid.diverging = values.min().item<double>() < 0;
  grid.low = grid.diverging ? -grid.high : 0;
  grid.framed = frames;
  grid.tooltip = [values, frames](int row, int column) {
    const bool kept = std::find(frames.begin(), frames.end(), std::pair(row, column)) != frames.end();
    return detail::concat("layer ", row, " head ", column, ": ",
                          number_text(values[row][column].item<double>(), "%.4f"), kept ? ", full attention" : "");
  };
  return metrics::grid_svg(grid);
}

std::string roles_svg(const at::Tensor& receive, const at::Tensor& send, const Frames& frames) {
  return send.defined() ? heads_svg("effect as receiver", receive, frames) + heads_svg("effect as sender", send, frames)
                        : heads_svg("effect", receive, frames);
}

std::string html_of(const TextTable& table) {
  std::vector<std::vector<metrics::HtmlCell>> cells;
  for (const auto& row : table.rows) {
    cells.emplace_back();
    for (const std::string& text : row) {
      cells.back().push_back({.text = text});
    }
  }
  return metrics::html_table(table.header, cells);
}

}  // namespace

std::string score_page(const ScoreReport& report) {
  const Frames frames = frames_of(report.plan);
  const std::string title = "Head scores of " + report.model_name;
  std::string body = "<h1>" + metrics::escape_xml(title) + "</h1>\n<p class=\"lead\">" +
                     metrics::escape_xml("Method " + report.scores.method) + ". Framed: heads of the plan.</p>\n";
  body += metrics::html_section(
      "Scores and plan",
      heads_svg("score", matrix_of(report.scores, &model::HeadScore::score), frames) +
          heads_svg("unclipped effect", matrix_of(report.scores, &model::HeadScore::effect), frames) +
          heads_svg("attribution", matrix_of(report.scores, &model::HeadScore::attribution), frames) +
          metrics::html_paragraph(slots_text(report)));
  for (const CapabilityScore& capability : report.fused.capabilities) {
    body += metrics::html_section(detail::concat("Capability ", capability.name, ", weight ", capability.weight),
                                  heads_svg("score", capability.score, frames) +
                                      roles_svg(capability.receive, capability.send, frames) +
                                      heads_svg("kappa: share of probes", capability.kappa, frames));
  }
  for (const ProbeEffects& probe : report.probes) {
    if (probe.pairs > 0) {
      body += metrics::html_section("Probe " + probe.probe, roles_svg(probe.receive, probe.send, frames));
    }
  }
  body += metrics::html_section("Ranking", html_of(ranking_table(report, SIZE_MAX)));
  if (!report.probes.empty()) {
    body += metrics::html_section("Probes", html_of(probe_table(report)));
    body += metrics::html_details("Settings", report.settings.dump(1));
  }
  return metrics::html_page(title, body);
}

}  // namespace hydra::select
