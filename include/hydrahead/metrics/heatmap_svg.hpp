#pragma once
// A heat map as one self-contained SVG (rects, lines and text; no script, font file or URL). Scale 0..100, red #b2182b
// over #f7f7f7 to blue #2166ac; a missing cell is hatched and never looks like a zero.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydra::metrics {

struct HeatmapCell {
  std::optional<double> value;  // 0..100; absent: missing
  std::string title;            // tooltip: sample count, interval, or why the cell is missing
};

struct Heatmap {
  std::string title, subtitle;
  std::string x_name, y_name;
  std::vector<std::string> x_labels, y_labels;  // left to right, top to bottom
  std::vector<HeatmapCell> cells;               // y_labels.size() rows of x_labels.size()
  std::string legend;                           // for example "24 samples a cell"
};

std::string heatmap_svg(const Heatmap& map);

// "#rrggbb" of a score in 0..100.
std::string score_color(double score);

// Text for XML and HTML, in content and in attributes; characters that XML forbids become U+FFFD.
std::string escape_xml(std::string_view text);

}  // namespace hydra::metrics
