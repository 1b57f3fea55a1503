#include "hydrahead/metrics/line_chart_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "hydrahead/base/error.hpp"
#include "hydrahead/metrics/heatmap_svg.hpp"
#include "svg.hpp"

namespace hydra::metrics {
namespace {

constexpr double width = 640, height = 300, left = 74, right = 170, top = 54, bottom = 52;
// Okabe and Ito's palette: told apart with any colour vision.
constexpr std::array<const char*, 7> colors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                               "#e69f00", "#56b4e9", "#000000"};

std::string label(double x, double y, const char* anchor, const char* color, const std::string& text) {
  return text_at(x, y, anchor, formatted("fill=\"%s\"", color), text);
}

// The y axis in drawing units: values, or their logarithms to base 2.
struct Axis {
  double low = 0, high = 1, step = 1;
  bool log_scale = false;

  double of(double value) const { return log_scale ? std::log2(value) : value; }
  double y(double value) const { return height - bottom - (of(value) - low) / (high - low) * (height - top - bottom); }
};

// About four steps of 1, 2 or 5 times a power of ten that cover all values.
Axis axis_of(const LineChart& chart) {
  Axis axis{.log_scale = chart.log_scale};
  bool any = false;
  for (const LineSeries& series : chart.series) {
    for (const std::optional<double>& value : series.values) {
      if (value) {
        axis.low = any ? std::min(axis.low, axis.of(*value)) : axis.of(*value);
        axis.high = any ? std::max(axis.high, axis.of(*value)) : axis.of(*value);
        any = true;
      }
    }
  }
  const double span = std::max(axis.high - axis.low, 1e-6 * std::max(1.0, std::abs(axis.high)));
  const double power = std::pow(10.0, std::floor(std::log10(span / 4)));
  axis.step = power;
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (span / axis.step > 5) {
      axis.step = factor * power;
    }
  }
  if (chart.log_scale) {
    axis.step = std::max(1.0, std::round(axis.step));
  }
  axis.low = std::floor(axis.low / axis.step) * axis.step;
  axis.high = std::max(std::ceil(axis.high / axis.step) * axis.step, axis.low + axis.step);
  return axis;
}

std::string series_svg(const LineSeries& series, const char* color, const LineChart& chart, const Axis& axis,
                       const std::function<double(std::size_t)>& x) {
  std::string path, points;
  bool pen_down = false;
  for (std::size_t i = 0; i < series.values.size(); ++i) {
    const std::optional<double>& value = series.values[i];
    if (value) {
      path += formatted("%s%.1f %.1f", pen_down ? " L" : path.empty() ? "M" : " M", x(i), axis.y(*value));
      points += formatted("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\">", x(i), axis.y(*value), color);
      points += "<title>" + escape_xml(series.name + ", " + chart.x_labels[i] + ": " + chart.value_text(*value)) +
                "</title></circle>\n";
    }
    pen_down = value.has_value();
  }
  return formatted("<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", color) + path + "\"/>\n" + points;
}

}  // namespace

std::string line_chart_svg(const LineChart& given) {
  LineChart chart = given;
  if (!chart.value_text) {
    chart.value_text = [](double value) { return formatted("%.3g", value); };
  }
  const Axis axis = axis_of(chart);
  const std::size_t columns = chart.x_labels.size();
  const auto x = [&](std::size_t column) {
    return left + (static_cast<double>(column) + 0.5) * (width - left - right) / static_cast<double>(columns);
  };
  std::string svg = svg_begin(width, height, chart.title);
  svg += title_at_top(chart.title);
  svg += label(12, top - 8, "start", "#555555", chart.y_name);
  const auto ticks = static_cast<int>(std::lround((axis.high - axis.low) / axis.step));
  for (int tick = 0; tick <= ticks; ++tick) {
    const double drawn = axis.low + tick * axis.step;
    const double value = axis.log_scale ? std::exp2(drawn) : drawn;
    svg += formatted("<line x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\" stroke=\"#e3e3e3\"/>\n", left,
                     axis.y(value), width - right, axis.y(value));
    svg += label(left - 8, axis.y(value) + 4, "end", "#555555", chart.value_text(value));
  }
  for (std::size_t i = 0; i < columns; ++i) {
    svg += label(x(i), height - bottom + 18, "middle", "#555555", chart.x_labels[i]);
  }
  svg += label((left + width - right) / 2, height - 12, "middle", "#555555", chart.x_name);
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const LineSeries& series = chart.series[s];
    HYDRA_CHECK(series.values.size() == columns, "chart \"", chart.title, "\": series ", series.name);
    const char* color = colors[s % colors.size()];
    svg += series_svg(series, color, chart, axis, x);
    const double y = top + 14 + 20 * static_cast<double>(s);
    svg += formatted("<rect x=\"%.0f\" y=\"%.0f\" width=\"14\" height=\"4\" fill=\"%s\"/>\n", width - right + 14, y - 6,
                     color);
    svg += label(width - right + 34, y, "start", "#1a1a1a", series.name);
  }
  return svg + "</svg>\n";
}

}  // namespace hydra::metrics
