#include "hydrahead/metrics/html.hpp"

#include <cstdlib>

#include "hydrahead/metrics/heatmap_svg.hpp"

namespace hydra::metrics {
namespace {

constexpr std::string_view style = R"(
body { margin: 0; background: #f4f5f7; color: #1a1a1a; font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 18px; margin: 0 0 12px; }
.lead { color: #555; margin: 0 0 20px; }
section { background: #fff; border: 1px solid #e1e4e8; border-radius: 8px; padding: 20px 22px; margin: 18px 0; overflow-x: auto; }
.cards { display: flex; flex-wrap: wrap; gap: 14px; margin: 18px 0; }
.card { flex: 1 1 190px; background: #fff; border: 1px solid #e1e4e8; border-radius: 8px; padding: 14px 18px; }
.card b { display: block; font-size: 22px; font-weight: 600; }
.card span { color: #555; font-size: 13px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: 6px 12px; text-align: right; border-bottom: 1px solid #e9ebee; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { color: #555; font-weight: 600; border-bottom: 2px solid #d5d8dc; }
tbody th { font-weight: 500; }
td.missing { color: #777; background: repeating-linear-gradient(135deg, #fff 0 6px, #e4e4e4 6px 7px); }
tr.mean th, tr.mean td { font-weight: 600; }
p.note { color: #555; font-size: 13px; margin: 10px 0 0; }
details { margin: 8px 0; }
summary { cursor: pointer; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f8fa; border-radius: 6px; padding: 12px; font-size: 12.5px; }
svg { max-width: 100%; height: auto; margin: 6px 12px 6px 0; }
)";

// Dark cells carry white text.
bool is_dark(const std::string& color) {
  const auto channel = [&](std::size_t at) { return std::strtol(color.substr(at, 2).c_str(), nullptr, 16); };
  return 299 * channel(1) + 587 * channel(3) + 114 * channel(5) < 128000;
}

std::string cell_html(const HtmlCell& cell, bool header) {
  std::string html = header ? "<th" : "<td";
  if (cell.background == "missing") {
    html += " class=\"missing\"";
  } else if (!cell.background.empty()) {
    html.append(" style=\"background: ").append(cell.background);
    html.append(is_dark(cell.background) ? "; color: #fff\"" : "\"");
  }
  if (!cell.title.empty()) {
    html.append(" title=\"").append(escape_xml(cell.title)).append("\"");
  }
  return html.append(">").append(escape_xml(cell.text)).append(header ? "</th>" : "</td>");
}

}  // namespace

std::string html_page(std::string_view title, std::string_view body) {
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>";
  page.append("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><title>");
  page.append(escape_xml(title)).append("</title><style>").append(style).append("</style></head>\n<body><main>\n");
  return page.append(body).append("</main></body></html>\n");
}

std::string html_table(const std::vector<std::string>& header, const std::vector<std::vector<HtmlCell>>& rows) {
  std::string html = "<table><thead><tr>";
  for (const std::string& text : header) {
    html.append("<th>").append(escape_xml(text)).append("</th>");
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    html += !row.empty() && row.front().emphasised ? "<tr class=\"mean\">" : "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += cell_html(row[i], i == 0);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

HtmlCell score_cell(double score, std::string text, std::string title) {
  return {.text = std::move(text), .background = score_color(score), .title = std::move(title)};
}

HtmlCell missing_cell(std::string reason) { return {.text = "-", .background = "missing", .title = std::move(reason)}; }

std::string html_section(std::string_view title, std::string_view body) {
  std::string html = "<section><h2>";
  return html.append(escape_xml(title)).append("</h2>\n").append(body).append("</section>\n");
}

std::string html_paragraph(std::string_view text) {
  std::string html = "<p class=\"note\">";
  return html.append(escape_xml(text)).append("</p>\n");
}

std::string html_details(std::string_view summary, std::string_view preformatted) {
  std::string html = "<details><summary>";
  html.append(escape_xml(summary)).append("</summary><pre>").append(escape_xml(preformatted));
  return html.append("</pre></details>\n");
}

}  // namespace hydra::metrics
