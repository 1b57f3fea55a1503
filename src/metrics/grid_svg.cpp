#include "hydrahead/metrics/grid_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "hydrahead/base/error.hpp"
#include "hydrahead/metrics/heatmap_svg.hpp"
#include "svg.hpp"

namespace hydra::metrics {
namespace {

double value_at(const Grid& grid, int row, int column) {
  return grid.values[static_cast<std::size_t>(row) * static_cast<std::size_t>(grid.columns) +
                     static_cast<std::size_t>(column)];
}

constexpr int left = 52, top = 44, bottom = 62, right = 16, least_width = 260;
constexpr std::size_t most_rects = 10000;
constexpr int steps = 254;    // shades of the bitmap
constexpr int unknown = 255;  // palette entry of a missing value
constexpr const char* grey = "#d8d8d8";
constexpr const char* frame = "#e08214";  // orange: on neither side of the scale

// Of t in [0, 1] on the grid's scale.
std::string color_at(double t, bool diverging) { return score_color(diverging ? 100 * t : 50 + 50 * t); }

double place(const Grid& grid, double value) {
  return grid.high > grid.low ? std::clamp((value - grid.low) / (grid.high - grid.low), 0.0, 1.0) : 0.0;
}

void append_number(std::string& bytes, std::uint32_t value, int width) {
  for (int i = 0; i < width; ++i, value >>= 8) {
    bytes.push_back(static_cast<char>(value & 0xff));
  }
}

// An uncompressed BMP of 8 bits a cell, rows from the bottom, each padded to four bytes.
std::string bitmap(const Grid& grid) {
  const int padding = (4 - grid.columns % 4) % 4;
  const auto pixels = static_cast<std::uint32_t>((grid.columns + padding) * grid.rows);
  constexpr std::uint32_t header = 14 + 40 + 4 * 256;
  std::string bytes = "BM";
  for (const std::uint32_t value : {header + pixels, 0u, header, 40u, static_cast<std::uint32_t>(grid.columns),
                                    static_cast<std::uint32_t>(grid.rows)}) {
    append_number(bytes, value, 4);
  }
  append_number(bytes, 1, 2);
  append_number(bytes, 8, 2);
  for (const std::uint32_t value : {0u, pixels, 2835u, 2835u, 256u, 0u}) {
    append_number(bytes, value, 4);
  }
  for (int i = 0; i < 256; ++i) {
    const std::string color = i > steps ? grey : color_at(static_cast<double>(i) / steps, grid.diverging);
    const auto rgb = static_cast<std::uint32_t>(std::stoul(color.substr(1), nullptr, 16));
    append_number(bytes, rgb, 4);  // blue, green, red, 0
  }
  for (int row = grid.rows - 1; row >= 0; --row) {
    for (int column = 0; column < grid.columns; ++column) {
      const double value = value_at(grid, row, column);
      const int shade = std::isfinite(value) ? static_cast<int>(std::lround(steps * place(grid, value))) : unknown;
      bytes.push_back(static_cast<char>(shade));
    }
    bytes.append(static_cast<std::size_t>(padding), '\0');
  }
  return bytes;
}

std::string base64(const std::string& bytes) {
  constexpr const char* alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text.push_back(i + j <= bytes.size() ? alphabet[group >> (18 - 6 * j) & 63] : '=');
    }
  }
  return text;
}

std::string cells_svg(const Grid& grid, double size) {
  std::string svg;
  for (int row = 0; row < grid.rows; ++row) {
    for (int column = 0; column < grid.columns; ++column) {
      const double value = value_at(grid, row, column);
      const bool known = std::isfinite(value);
      const std::string tooltip =
          grid.tooltip ? grid.tooltip(row, column)
                       : formatted("%s %d, %s %d: ", grid.y_name.c_str(), row, grid.x_name.c_str(), column) +
                             (known ? formatted("%.4g", value) : std::string("none"));
      svg += formatted("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>",
                       left + column * size, top + row * size, size, size,
                       known ? color_at(place(grid, value), grid.diverging).c_str() : grey);
      svg += escape_xml(tooltip) + "</title></rect>\n";
    }
  }
  return svg;
}

}  // namespace

std::string grid_svg(const Grid& grid) {
  const auto count = static_cast<std::size_t>(grid.rows) * static_cast<std::size_t>(grid.columns);
  HYDRA_CHECK(count > 0 && grid.values.size() == count, "grid \"", grid.title, "\": ", grid.values.size(),
              " values for ", grid.rows, " rows and ", grid.columns, " columns");
  const double size = std::clamp(480.0 / std::max(grid.rows, grid.columns), 2.0, 20.0);
  const double grid_width = size * grid.columns, grid_height = size * grid.rows;
  const double title_width = 8.5 * static_cast<double>(grid.title.size()) + 24;
  const double width = std::max(left + std::max<double>(grid_width, least_width) + right, title_width);
  const double height = top + grid_height + bottom;
  std::string svg = svg_begin(width, height, grid.title);
  svg += title_at_top(grid.title);
  if (count <= most_rects) {
    svg += cells_svg(grid, size);
  } else {
    svg += formatted("<image x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%.1f\" preserveAspectRatio=\"none\" ", left, top,
                     grid_width, grid_height) +
           "style=\"image-rendering: pixelated\" href=\"data:image/bmp;base64," + base64(bitmap(grid)) + "\"/>\n";
  }
  const auto line = [&](double x1, double y1, double x2, double y2) {
    svg +=
        formatted("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#9a9a9a\" stroke-width=\"0.5\"/>\n",
                  x1, y1, x2, y2);
  };
  for (int at = grid.lines_every; at > 0 && at < grid.columns; at += grid.lines_every) {
    line(left + at * size, top, left + at * size, top + grid_height);
  }
  for (int at = grid.lines_every; at > 0 && at < grid.rows; at += grid.lines_every) {
    line(left, top + at * size, left + grid_width, top + at * size);
  }
  const double stroke = std::min(2.0, size / 4);
  for (const auto& [row, column] : grid.framed) {
    svg += formatted(
        "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" stroke=\"%s\" "
        "stroke-width=\"%.2f\"/>\n",
        left + column * size + stroke / 2, top + row * size + stroke / 2, size - stroke, size - stroke, frame, stroke);
  }
  // Numbers about every 24 pixels.
  const int step = std::max(1, static_cast<int>(std::ceil(24 / size)));
  for (int column = 0; column < grid.columns; column += step) {
    svg += text_at(left + (column + 0.5) * size, top + grid_height + 14, "middle", "fill=\"#555555\" font-size=\"10\"",
                   std::to_string(column));
  }
  for (int row = 0; row < grid.rows; row += step) {
    svg += text_at(left - 5, top + (row + 0.5) * size + 4, "end", "fill=\"#555555\" font-size=\"10\"",
                   std::to_string(row));
  }
  svg += text_at(left + grid_width / 2, top + grid_height + 30, "middle", "fill=\"#555555\"", grid.x_name);
  const double middle = top + grid_height / 2;
  svg += text_at(14, middle, "middle", formatted("fill=\"#555555\" transform=\"rotate(-90 14 %.1f)\"", middle),
                 grid.y_name);
  for (int i = 0; i < 20; ++i) {
    svg += formatted("<rect x=\"%d\" y=\"%.1f\" width=\"6\" height=\"8\" fill=\"%s\"/>\n", left + 50 + 6 * i,
                     height - 20, color_at(i / 19.0, grid.diverging).c_str());
  }
  svg += text_at(left + 44, height - 12, "end", "fill=\"#555555\"", formatted("%.3g", grid.low));
  svg += text_at(left + 176, height - 12, "start", "fill=\"#555555\"", formatted("%.3g", grid.high));
  return svg + "</svg>\n";
}

}  // namespace hydra::metrics
