#include "hydrahead/metrics/heatmap_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "hydrahead/base/error.hpp"
#include "svg.hpp"

namespace hydra::metrics {
namespace {

constexpr int cell_width = 64, cell_height = 30, title_height = 52, axis_height = 44, legend_height = 34;

using Rgb = std::array<double, 3>;
constexpr Rgb low = {0xb2, 0x18, 0x2b}, middle = {0xf7, 0xf7, 0xf7}, high = {0x21, 0x66, 0xac};

// Lines instead of a <pattern>: several maps can stand in one page without clashing ids.
std::string hatching(int x, int y, int width, int height) {
  std::string lines = "<g stroke=\"#9a9a9a\" stroke-width=\"1\">\n";
  for (int start = -height; start < width; start += 8) {
    const int from = std::max(start, 0), to = std::min(start + height, width);
    lines += formatted("<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", x + from, y + height - (from - start),
                       x + to, y + height - (to - start));
  }
  return lines + "</g>\n";
}

std::string cell_svg(const HeatmapCell& cell, int x, int y) {
  std::string svg = "<g><title>" + escape_xml(cell.title) + "</title>\n";
  svg += formatted("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"#ffffff\"/>\n", x, y,
                   cell_width, cell_height, cell.value ? score_color(*cell.value).c_str() : "#ffffff");
  if (!cell.value) {
    return svg + hatching(x + 1, y + 1, cell_width - 2, cell_height - 2) + "</g>\n";
  }
  const bool dark = *cell.value < 22.0 || *cell.value > 78.0;
  const double shown = std::round(*cell.value * 10.0) / 10.0;
  svg +=
      text_at(x + cell_width / 2.0, y + cell_height / 2.0 + 4, "middle", dark ? "fill=\"#ffffff\"" : "fill=\"#1a1a1a\"",
              formatted(shown == std::floor(shown) ? "%.0f" : "%.1f", shown));
  return svg + "</g>\n";
}

std::string legend_svg(int x, int y, const std::string& note) {
  std::string svg;
  constexpr int steps = 20, step_width = 7;
  for (int i = 0; i < steps; ++i) {
    svg += formatted("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"10\" fill=\"%s\"/>\n", x + i * step_width, y,
                     step_width, score_color(100.0 * i / (steps - 1)).c_str());
  }
  svg += text_at(x, y + 22, "start", "fill=\"#555555\"", "0");
  svg += text_at(x + steps * step_width, y + 22, "end", "fill=\"#555555\"", "100");
  const int box = x + steps * step_width + 16;
  svg +=
      formatted("<rect x=\"%d\" y=\"%d\" width=\"22\" height=\"10\" fill=\"#ffffff\" stroke=\"#9a9a9a\"/>\n", box, y);
  svg += hatching(box, y, 22, 10);
  svg += text_at(box + 28, y + 9, "start", "fill=\"#555555\"", "not tested");
  return svg + text_at(box + 28, y + 22, "start", "fill=\"#555555\"", note);
}

int label_width(const std::vector<std::string>& labels) {
  std::size_t longest = 4;
  for (const std::string& label : labels) {
    longest = std::max(longest, label.size());
  }
  return static_cast<int>(longest) * 7 + 34;  // with room for the axis name, written upwards
}

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r') {
          escaped += "\xEF\xBF\xBD";
        } else {
          escaped.push_back(c);
        }
    }
  }
  return escaped;
}

std::string score_color(double score) {
  const double t = std::clamp(score, 0.0, 100.0) / 50.0;
  const Rgb& from = t < 1.0 ? low : middle;
  const Rgb& to = t < 1.0 ? middle : high;
  const double mix = t < 1.0 ? t : t - 1.0;
  std::array<int, 3> rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    rgb[i] = static_cast<int>(std::lround(from[i] + (to[i] - from[i]) * mix));
  }
  return formatted("#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
}

std::string heatmap_svg(const Heatmap& map) {
  const int columns = static_cast<int>(map.x_labels.size()), rows = static_cast<int>(map.y_labels.size());
  HYDRA_CHECK(map.cells.size() == map.x_labels.size() * map.y_labels.size(), "heat map \"", map.title,
              "\": ", map.cells.size(), " cells for ", columns, " columns and ", rows, " rows");
  const int left = label_width(map.y_labels);
  const int title_width = static_cast<int>(std::max(map.title.size(), map.subtitle.size())) * 8 + 24;
  const int legend_width = 184 + std::max(10, static_cast<int>(map.legend.size())) * 7 + 12;
  const int width = std::max({left + columns * cell_width + 20, left + legend_width, title_width});
  const int grid_bottom = title_height + rows * cell_height;
  const int height = grid_bottom + axis_height + legend_height;
  std::string svg = svg_begin(width, height, map.title);
  svg += title_at_top(map.title);
  svg += text_at(12, 39, "start", "fill=\"#555555\"", map.subtitle);
  for (int row = 0; row < rows; ++row) {
    const int y = title_height + row * cell_height;
    svg += text_at(left - 8, y + cell_height / 2.0 + 4, "end", "fill=\"#1a1a1a\"",
                   map.y_labels[static_cast<std::size_t>(row)]);
    for (int column = 0; column < columns; ++column) {
      svg += cell_svg(map.cells[static_cast<std::size_t>(row * columns + column)], left + column * cell_width, y);
    }
  }
  for (int column = 0; column < columns; ++column) {
    svg += text_at(left + (column + 0.5) * cell_width, grid_bottom + 17, "middle", "fill=\"#1a1a1a\"",
                   map.x_labels[static_cast<std::size_t>(column)]);
  }
  svg += text_at(left + columns * cell_width / 2.0, grid_bottom + 35, "middle", "fill=\"#555555\"", map.x_name);
  const double middle_row = title_height + rows * cell_height / 2.0;
  svg += text_at(16, middle_row, "middle", formatted("fill=\"#555555\" transform=\"rotate(-90 16 %.1f)\"", middle_row),
                 map.y_name);
  svg += legend_svg(left, grid_bottom + axis_height, map.legend);
  return svg + "</svg>\n";
}

}  // namespace hydra::metrics
