#pragma once
// Pieces of self-contained HTML pages, written in XML's spelling so that any XML parser can read them.

#include <string>
#include <string_view>
#include <vector>

namespace hydra::metrics {

// A whole page; `body` is HTML.
std::string html_page(std::string_view title, std::string_view body);

struct HtmlCell {
  std::string text;             // escaped here
  std::string background = {};  // "#rrggbb", "missing", or empty
  std::string title = {};       // tooltip
  bool emphasised = false;      // in the first cell: the whole row is
};
// The first cell of each row is a row header.
std::string html_table(const std::vector<std::string>& header, const std::vector<std::vector<HtmlCell>>& rows);

// A cell coloured on the scale of the heat maps.
HtmlCell score_cell(double score, std::string text, std::string title);
HtmlCell missing_cell(std::string reason);

std::string html_section(std::string_view title, std::string_view body);
std::string html_paragraph(std::string_view text);                                  // escaped
std::string html_details(std::string_view summary, std::string_view preformatted);  // both escaped

}  // namespace hydra::metrics
