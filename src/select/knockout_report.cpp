// knockout.json, knockout.md and knockout.svg.

#include <array>
#include <cmath>
#include <cstdio>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/metrics/line_chart_svg.hpp"
#include "hydrahead/select/knockout.hpp"

namespace hydra::select {
namespace {

std::string percent(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", 100 * value);
  return text.data();
}

std::string conditions(const Knockout& knockout) {
  std::string tasks;
  for (const std::string& task : knockout.tasks) {
    tasks += (tasks.empty() ? "" : ", ") + task;
  }
  return detail::concat(knockout.samples, " samples of ", tasks, " at ", knockout.context, " tokens; ", knockout.heads,
                        " heads in all");
}

}  // namespace

Json to_json(const Knockout& knockout) {
  Json json = {{"format", "hydrahead knockout 1"}, {"heads", knockout.heads}, {"context", knockout.context},
               {"samples", knockout.samples},      {"tasks", knockout.tasks}, {"counts", knockout.counts},
               {"curves", Json::array()}};
  for (const KnockoutCurve& curve : knockout.curves) {
    json["curves"].push_back({{"name", curve.name}, {"accuracy", curve.accuracy}});
  }
  return json;
}

std::string knockout_table(const Knockout& knockout) {
  std::string text = "| heads removed |", rule = "\n|---|";
  for (const std::int64_t count : knockout.counts) {
    text += detail::concat(" ", count, " |");
    rule += "---|";
  }
  text += rule + "\n| share of heads |";
  for (const std::int64_t count : knockout.counts) {
    text += detail::concat(" ", percent(static_cast<double>(count) / static_cast<double>(knockout.heads)), "% |");
  }
  text += "\n";
  for (const KnockoutCurve& curve : knockout.curves) {
    text += "| " + curve.name + " |";
    for (const double value : curve.accuracy) {
      text += detail::concat(" ", percent(value), " |");
    }
    text += "\n";
  }
  return text + "\nAnswers found, percent: " + conditions(knockout) + ".\n";
}

void write_knockout(const fs::path& dir, const Knockout& knockout) {
  fs::create_directories(dir);
  metrics::LineChart chart{.title = "Retrieval without some heads",
                           .x_name = "heads removed; " + conditions(knockout),
                           .y_name = "answers found, percent",
                           .x_labels = {},
                           .series = {}};
  for (const std::int64_t count : knockout.counts) {
    chart.x_labels.push_back(std::to_string(count));
  }
  for (const KnockoutCurve& curve : knockout.curves) {
    metrics::LineSeries series{.name = curve.name, .values = {}};
    for (const double value : curve.accuracy) {
      series.values.emplace_back(100 * value);
    }
    chart.series.push_back(std::move(series));
  }
  write_file_atomic(dir / "knockout.json", to_json(knockout).dump(1) + "\n");
  write_file_atomic(dir / "knockout.md", knockout_table(knockout));
  write_file_atomic(dir / "knockout.svg", metrics::line_chart_svg(chart));
}

}  // namespace hydra::select
