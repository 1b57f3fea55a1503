#include "niah_html.hpp"

#include <algorithm>

#include "format.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/metrics/heatmap_svg.hpp"
#include "hydrahead/metrics/html.hpp"

namespace hydra::eval {
namespace {

using metrics::html_details;
using metrics::html_page;
using metrics::html_paragraph;
using metrics::html_section;
using metrics::html_table;
using metrics::HtmlCell;
using metrics::missing_cell;
using metrics::score_cell;

std::vector<std::string> length_labels(const NiahSummary& summary) {
  std::vector<std::string> labels;
  for (const std::int64_t length : summary.lengths) {
    labels.push_back(std::to_string(length));
  }
  return labels;
}

// "24 samples a cell", or the range where cells differ.
std::string sample_legend(const NiahSummary& summary) {
  std::int64_t least = -1, most = 0;
  for (const auto& row : summary.cells) {
    for (const NiahCell& cell : row) {
      if (cell.missing.empty()) {
        least = least < 0 ? cell.samples : std::min(least, cell.samples);
        most = std::max(most, cell.samples);
      }
    }
  }
  if (least < 0) {
    return "no samples";
  }
  return least == most ? detail::concat(most, " samples a cell")
                       : detail::concat(least, " to ", most, " samples a cell");
}

}  // namespace

std::string cell_title(const NiahCell& cell) {
  if (!cell.missing.empty()) {
    return cell.missing;
  }
  return detail::concat(cell.samples, " samples, 95% interval ", fixed(cell.low, 2), " to ", fixed(cell.high, 2),
                        "; strict ", fixed(cell.strict, 2), ", precision ", fixed(cell.precision, 2), ", truncated ",
                        cell.truncated, ", empty ", cell.empty, ", fill ", fixed(cell.fill, 1), "%");
}

std::string niah_tasks_svg(const NiahSummary& summary) {
  metrics::Heatmap map{.title = "NIAH by task and length",
                       .subtitle = summary.name,
                       .x_name = "length (tokens)",
                       .y_name = "task",
                       .x_labels = length_labels(summary),
                       .y_labels = {},
                       .cells = {},
                       .legend = sample_legend(summary)};
  for (std::size_t t = 0; t < summary.tasks.size(); ++t) {
    map.y_labels.emplace_back(data::task_name(summary.tasks[t]));
    for (const NiahCell& cell : summary.cells[t]) {
      map.cells.push_back(
          {.value = cell.missing.empty() ? std::optional(cell.score) : std::nullopt, .title = cell_title(cell)});
    }
  }
  return metrics::heatmap_svg(map);
}

std::string niah_depth_svg(const NiahSummary& summary, std::size_t task) {
  const DepthTable& table = summary.depths[task];
  metrics::Heatmap map{.title = detail::concat(data::task_name(summary.tasks[task]), " by needle depth"),
                       .subtitle = summary.name,
                       .x_name = "length (tokens)",
                       .y_name = "depth",
                       .x_labels = length_labels(summary),
                       .y_labels = table.rows,
                       .cells = {},
                       .legend = "each needle counts at its own depth"};
  for (const auto& row : table.cells) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      const DepthCell& cell = row[column];
      if (cell.needles == 0) {
        const std::string& reason = summary.cells[task][column].missing;
        map.cells.push_back({.value = std::nullopt, .title = reason.empty() ? "no needle at this depth" : reason});
        continue;
      }
      const double recall = static_cast<double>(cell.found) / static_cast<double>(cell.needles);
      const Interval interval = wilson_interval(recall, static_cast<std::size_t>(cell.needles));
      map.cells.push_back(
          {.value = 100 * recall,
           .title = detail::concat(cell.found, " of ", cell.needles, " needles, 95% interval ",
                                   fixed(100 * interval.low, 2), " to ", fixed(100 * interval.high, 2))});
    }
  }
  return metrics::heatmap_svg(map);
}

std::string niah_html_table(const NiahSummary& summary) {
  std::vector<std::string> header = {"task"};
  for (const std::string& label : length_labels(summary)) {
    header.push_back(label);
  }
  std::vector<std::vector<HtmlCell>> rows;
  for (std::size_t t = 0; t < summary.tasks.size(); ++t) {
    rows.push_back({{.text = std::string(data::task_name(summary.tasks[t]))}});
    for (const NiahCell& cell : summary.cells[t]) {
      rows.back().push_back(cell.missing.empty()
                                ? score_cell(cell.score,
                                             detail::concat(fixed(cell.score, 1), "  [", fixed(cell.low, 0), "..",
                                                            fixed(cell.high, 0), "]"),
                                             cell_title(cell))
                                : missing_cell(cell.missing));
    }
  }
  for (const NiahMeanRow& mean_row : summary.means) {
    rows.push_back({{.text = mean_row.name, .emphasised = true}});
    for (const NiahMean& mean : mean_row.lengths) {
      const std::string title = detail::concat("mean of ", mean.cells, " of ", mean_row.of, " tasks");
      rows.back().push_back(
          mean.cells > 0
              ? score_cell(mean.score, detail::concat(fixed(mean.score, 1), " ± ", fixed(mean.half, 1)), title)
              : missing_cell("no task was tested"));
    }
  }
  return html_table(header, rows);
}

std::string niah_html(const NiahSummary& summary) {
  std::string body = detail::concat("<h1>Needle in a haystack: ", metrics::escape_xml(summary.name), "</h1>\n");
  body += detail::concat("<p class=\"lead\">", summary.samples, " samples in RULER's form; greedy answers, scored by ",
                         "substring recall in percent.</p>\n");
  std::string table = niah_html_table(summary);
  const auto text = [](const std::optional<double>& value) { return value ? fixed(*value, 2) : std::string("none"); };
  table += html_paragraph(detail::concat(
      "Mean over lengths ", text(summary.average), ", weighted to long ", text(summary.average_increasing),
      ", weighted to short ", text(summary.average_decreasing), "; effective length (mean above ",
      fixed(summary.threshold, 1), ") ",
      summary.effective_length ? std::to_string(*summary.effective_length) : std::string("none"), ". Empty answers ",
      summary.empty, ", truncated ", summary.truncated, ", failed ", summary.failed, " of ", summary.samples, "."));
  table += html_paragraph("Brackets: Wilson's 95% interval. Hatched: not tested, left out of every mean.");
  body += html_section("Scores", table) + html_section("By task and length", niah_tasks_svg(summary));
  std::string depths;
  for (std::size_t t = 0; t < summary.tasks.size(); ++t) {
    depths += niah_depth_svg(summary, t);
  }
  body += html_section("By needle depth", depths);
  std::vector<std::vector<HtmlCell>> settings;
  for (const auto& [key, value] : summary.settings.items()) {
    settings.push_back({{.text = key}, {.text = value.is_string() ? value.get<std::string>() : value.dump()}});
  }
  body += html_section("Settings", html_table({"setting", "value"}, settings));
  std::string prompts;
  for (const auto& [id, prompt] : summary.prompts) {
    prompts += html_details(id, prompt);
  }
  return html_page("NIAH: " + summary.name, body + html_section("Prompts", prompts));
}

}  // namespace hydra::eval
