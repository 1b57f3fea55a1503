// report.html: one page that shows a whole run without any outside resource. A reader sees first what was gained and
// what it cost, then the numbers behind it.

#include <algorithm>
#include <cmath>
#include <map>

#include "format.hpp"
#include "hydrahead/metrics/heatmap_svg.hpp"
#include "hydrahead/metrics/html.hpp"
#include "hydrahead/metrics/line_chart_svg.hpp"
#include "hydrahead/metrics/progress.hpp"
#include "niah_html.hpp"
#include "report_parts.hpp"

namespace hydra::eval {
namespace {

using metrics::escape_xml;
using metrics::html_details;
using metrics::html_page;
using metrics::html_paragraph;
using metrics::html_section;
using metrics::html_table;
using metrics::HtmlCell;
using metrics::missing_cell;
using metrics::score_cell;

std::vector<std::string> labels_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::string> labels;
  for (const std::int64_t length : lengths) {
    labels.push_back(std::to_string(length));
  }
  return labels;
}

std::string card(const std::string& value, const std::string& meaning) {
  return detail::concat("<div class=\"card\"><b>", escape_xml(value), "</b><span>", escape_xml(meaning),
                        "</span></div>\n");
}

std::string cards(const RunReport& report) {
  std::string html;
  const StateResult& first = report.states.front();
  const StateResult& last = report.states.back();
  const std::vector<std::int64_t> lengths = report_lengths(report);
  if (!lengths.empty()) {
    const NiahMean* before = find_mean(first, lengths.back());
    const NiahMean* after = find_mean(last, lengths.back());
    if (before != nullptr && after != nullptr) {
      html += card(fixed(before->score, 0) + " → " + fixed(after->score, 0),
                   detail::concat("needle score at ", lengths.back(), " tokens, ", first.name, " → ", last.name));
    }
    const auto full = static_cast<double>(cache_bytes_at(first.cache, lengths.back()));
    const auto now = static_cast<double>(cache_bytes_at(last.cache, lengths.back()));
    html +=
        card(bytes_text(full) + " → " + bytes_text(now),
             detail::concat("KV cache and state at ", lengths.back(), " tokens (", fixed(100 * now / full, 0), "%)"));
  }
  if (first.ppl && last.ppl && std::isfinite(first.ppl->loss) && std::isfinite(last.ppl->loss)) {
    html += card(fixed(first.ppl->loss, 3) + " → " + fixed(last.ppl->loss, 3), "loss on held-out text, nats a token");
  }
  double seconds = 0, tokens = 0;
  for (const StageSpeed& speed : report.stages) {
    seconds += speed.seconds;
    tokens += static_cast<double>(speed.tokens);
  }
  if (seconds > 0) {
    html += card(metrics::duration_text(seconds), metrics::count_text(tokens) + " tokens of training in " +
                                                      std::to_string(report.stages.size()) + " stages");
  }
  return "<div class=\"cards\">" + html + "</div>\n";
}

// Rows: states; columns: lengths.
std::string state_heatmap(const RunReport& report, const std::string& title,
                          const std::function<metrics::HeatmapCell(const StateResult&, std::int64_t)>& cell) {
  metrics::Heatmap map{.title = title,
                       .subtitle = "",
                       .x_name = "length (tokens)",
                       .y_name = "state",
                       .x_labels = labels_of(report_lengths(report)),
                       .y_labels = {},
                       .cells = {},
                       .legend = "sample counts in the tooltips"};
  for (const StateResult& state : report.states) {
    if (state.niah) {
      map.y_labels.push_back(state.name);
      for (const std::int64_t length : report_lengths(report)) {
        map.cells.push_back(cell(state, length));
      }
    }
  }
  return metrics::heatmap_svg(map);
}

std::string niah_section(const RunReport& report) {
  std::string body = state_heatmap(report, "mean over tasks", [](const StateResult& state, std::int64_t length) {
    const NiahMean* mean = find_mean(state, length);
    return mean == nullptr
               ? metrics::HeatmapCell{.value = std::nullopt, .title = "not tested"}
               : metrics::HeatmapCell{.value = mean->score,
                                      .title = detail::concat(mean->cells, " tasks, ± ", fixed(mean->half, 2))};
  });
  for (const data::NiahTask task : report_tasks(report)) {
    body +=
        state_heatmap(report, std::string(data::task_name(task)), [&](const StateResult& state, std::int64_t length) {
          const NiahCell* cell = find_cell(state, task, length);
          if (cell == nullptr) {
            return metrics::HeatmapCell{.value = std::nullopt, .title = "not tested"};
          }
          return metrics::HeatmapCell{.value = cell->missing.empty() ? std::optional(cell->score) : std::nullopt,
                                      .title = cell_title(*cell)};
        });
  }
  return html_section("Needle in a haystack, by state and length", body + html_paragraph(niah_conditions(report)));
}

std::string intervals_section(const RunReport& report) {
  std::vector<std::string> header = {"task", "state"};
  for (const std::string& label : labels_of(report_lengths(report))) {
    header.push_back(label);
  }
  std::vector<std::vector<HtmlCell>> rows;
  for (const data::NiahTask task : report_tasks(report)) {
    for (const StateResult& state : report.states) {
      if (!state.niah) {
        continue;
      }
      rows.push_back({{.text = std::string(data::task_name(task))}, {.text = state.name}});
      for (const std::int64_t length : report_lengths(report)) {
        const NiahCell* cell = find_cell(state, task, length);
        const bool tested = cell != nullptr && cell->missing.empty();
        rows.back().push_back(tested ? score_cell(cell->score,
                                                  detail::concat(fixed(cell->score, 0), " [", fixed(cell->low, 0), ", ",
                                                                 fixed(cell->high, 0), "]"),
                                                  cell_title(*cell))
                                     : missing_cell(cell == nullptr ? "not tested" : cell->missing));
      }
    }
  }
  return html_section("Scores with intervals", html_table(header, rows));
}

std::string cache_section(const RunReport& report) {
  const std::vector<std::int64_t> lengths = report_lengths(report);
  metrics::LineChart chart{.title = "bytes of KV cache and state",
                           .x_name = "length (tokens)",
                           .y_name = "bytes",
                           .x_labels = labels_of(lengths),
                           .series = {},
                           .log_scale = true,
                           .value_text = bytes_text};
  std::vector<std::string> header = {"decode state", "KV a token", "constant"};
  for (const std::int64_t length : lengths) {
    header.push_back("at " + std::to_string(length));
  }
  std::vector<std::vector<HtmlCell>> rows;
  const std::vector<CacheRow> caches = cache_rows(report);
  for (const CacheRow& row : caches) {
    metrics::LineSeries series{.name = &row == &caches.front() ? row.name : "hybrid", .values = {}};
    rows.push_back({{.text = row.name},
                    {.text = bytes_text(static_cast<double>(row.cache.kv_per_token))},
                    {.text = bytes_text(static_cast<double>(row.cache.constant))}});
    for (const std::int64_t length : lengths) {
      const auto bytes = static_cast<double>(cache_bytes_at(row.cache, length));
      series.values.emplace_back(bytes);
      const double share = 100 * bytes / static_cast<double>(cache_bytes_at(caches.front().cache, length));
      rows.back().push_back({.text = bytes_text(bytes), .title = fixed(share, 1) + "% of the first row"});
    }
    chart.series.push_back(std::move(series));
  }
  return html_section("KV cache and state",
                      html_table(header, rows) + (lengths.empty() ? "" : metrics::line_chart_svg(chart)));
}

std::string ppl_section(const RunReport& report) {
  const std::vector<PplResult> results = ppl_results(report);
  std::map<std::int64_t, std::string> buckets;
  for (const PplResult& result : results) {
    for (const PplBucket& bucket : result.buckets) {
      buckets[bucket.begin] = bucket_label(bucket);
    }
  }
  metrics::LineChart chart{.title = "loss by position",
                           .x_name = "position in the text (tokens)",
                           .y_name = "nats a token",
                           .x_labels = {},
                           .series = {},
                           .log_scale = false,
                           .value_text = {}};
  std::vector<std::string> header = {"state", "all", "perplexity"};
  for (const auto& [begin, label] : buckets) {
    chart.x_labels.push_back(label);
    header.push_back(label);
  }
  std::vector<std::vector<HtmlCell>> rows;
  for (const PplResult& result : results) {
    const auto cell = [&](double value, int digits) {
      return std::isfinite(value) ? HtmlCell{.text = fixed(value, digits)} : missing_cell("not finite");
    };
    rows.push_back({{.text = result.name, .title = detail::concat(result.tokens, " tokens")},
                    cell(result.loss, 3),
                    cell(std::exp(result.loss), 2)});
    metrics::LineSeries series{.name = result.name, .values = {}};
    for (const auto& entry : buckets) {
      const auto bucket = std::find_if(result.buckets.begin(), result.buckets.end(),
                                       [&](const PplBucket& b) { return b.begin == entry.first; });
      const bool known = bucket != result.buckets.end() && std::isfinite(bucket->loss);
      series.values.push_back(known ? std::optional(bucket->loss) : std::nullopt);
      rows.back().push_back(
          known ? HtmlCell{.text = fixed(bucket->loss, 3), .title = detail::concat(bucket->tokens, " tokens")}
                : missing_cell("no tokens, or no finite loss"));
    }
    chart.series.push_back(std::move(series));
  }
  return html_section("Loss on held-out text, by position", html_table(header, rows) + metrics::line_chart_svg(chart));
}

std::string speed_section(const RunReport& report) {
  std::vector<std::vector<HtmlCell>> rows;
  for (const StageSpeed& speed : report.stages) {
    std::vector<std::string> texts = {speed.stage,
                                      std::to_string(speed.context),
                                      std::to_string(speed.steps),
                                      grouped(speed.tokens),
                                      metrics::duration_text(speed.seconds),
                                      grouped(static_cast<std::int64_t>(std::llround(speed.tokens_per_second))),
                                      speed.teraflops > 0 ? fixed(speed.teraflops, speed.teraflops < 10 ? 3 : 1) : "-",
                                      speed.mfu > 0 ? fixed(100 * speed.mfu, 1) + "%" : "-",
                                      speed.peak_memory > 0 ? bytes_text(static_cast<double>(speed.peak_memory)) : "-",
                                      fixed(speed.first_loss, 4) + " → " + fixed(speed.last_loss, 4)};
    rows.emplace_back();
    for (std::string& text : texts) {
      rows.back().push_back({.text = std::move(text)});
    }
  }
  return html_section("Training", html_table({"stage", "context", "steps", "tokens", "time", "tokens/s", "TFLOP/s",
                                              "MFU", "peak memory", "loss"},
                                             rows));
}

// A grid of heads: blue keeps full attention.
std::string plan_section(const RunReport& report) {
  constexpr int size = 20, left = 64, top = 26;
  const auto layers = static_cast<int>(report.fa_heads.size()), heads = static_cast<int>(report.heads);
  const int width = left + std::max(heads * size, 260) + 12, height = top + layers * size + 34;
  std::string svg = detail::concat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height, "\" viewBox=\"0 0 ", width,
      " ", height, "\" font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n",
      "<title>head plan</title>\n<rect width=\"", width, "\" height=\"", height, "\" fill=\"#ffffff\"/>\n");
  for (int head = 0; head<heads; head += heads> 16 ? 4 : 1) {
    svg += detail::concat("<text x=\"", left + head * size + size / 2, "\" y=\"", top - 8,
                          "\" text-anchor=\"middle\" fill=\"#555555\">", head, "</text>\n");
  }
  for (int layer = 0; layer < layers; ++layer) {
    const std::vector<std::int64_t>& fa = report.fa_heads[static_cast<std::size_t>(layer)];
    svg += detail::concat("<text x=\"", left - 8, "\" y=\"", top + layer * size + 14,
                          "\" text-anchor=\"end\" fill=\"#555555\">layer ", layer, "</text>\n");
    for (int head = 0; head < heads; ++head) {
      const bool full = std::find(fa.begin(), fa.end(), head) != fa.end();
      svg += detail::concat("<rect x=\"", left + head * size, "\" y=\"", top + layer * size, "\" width=\"", size - 2,
                            "\" height=\"", size - 2, "\" rx=\"3\" fill=\"", full ? "#2166ac" : "#dfe5ec",
                            "\"><title>layer ", layer, ", head ", head, full ? ": full attention" : ": Gated DeltaNet",
                            "</title></rect>\n");
    }
  }
  const int y = top + layers * size + 12;
  svg += detail::concat("<rect x=\"", left, "\" y=\"", y, "\" width=\"12\" height=\"12\" rx=\"2\" fill=\"#2166ac\"/>\n",
                        "<text x=\"", left + 18, "\" y=\"", y + 11, "\" fill=\"#1a1a1a\">full attention</text>\n",
                        "<rect x=\"", left + 120, "\" y=\"", y,
                        "\" width=\"12\" height=\"12\" rx=\"2\" fill=\"#dfe5ec\"/>\n", "<text x=\"", left + 138,
                        "\" y=\"", y + 11, "\" fill=\"#1a1a1a\">Gated DeltaNet</text>\n</svg>\n");
  return html_section("Head plan", svg);
}

std::string facts_section(const RunReport& report) {
  std::vector<std::vector<HtmlCell>> rows;
  for (const auto& [key, value] : report.facts) {
    rows.push_back({{.text = key}, {.text = one_line(value)}});
  }
  for (const StateResult& state : report.states) {
    rows.push_back({{.text = "parameters, " + state.name}, {.text = grouped(state.parameters)}});
  }
  return html_section("What was run", html_table({"", ""}, rows) + html_details("Resolved config", report.config_yaml));
}

}  // namespace

std::string report_html(const RunReport& report) {
  std::string body = "<h1>" + escape_xml(report.title) + "</h1>\n";
  if (!report.states.empty()) {
    body +=
        "<p class=\"lead\">From the teacher to the trained hybrid of full attention and Gated DeltaNet heads.</p>\n";
    body += cards(report);
  }
  const bool niah = !report_lengths(report).empty();
  body += niah ? niah_section(report) : "";
  body += ppl_results(report).empty() ? "" : ppl_section(report);
  body += report.states.empty() ? "" : cache_section(report);
  body += report.stages.empty() ? "" : speed_section(report);
  body += report.fa_heads.empty() ? "" : plan_section(report);
  body += niah ? intervals_section(report) : "";
  if (niah && report.states.back().niah) {
    const NiahSummary& last = *report.states.back().niah;
    std::string depths, prompts;
    for (std::size_t t = 0; t < last.tasks.size(); ++t) {
      depths += niah_depth_svg(last, t);
    }
    for (const auto& [id, prompt] : last.prompts) {
      prompts += html_details(id, prompt);
    }
    body += html_section("By needle depth: " + report.states.back().name, depths) + html_section("Prompts", prompts);
  }
  return html_page(report.title, body + facts_section(report));
}

}  // namespace hydra::eval
