#pragma once
// Lines over named columns as one self-contained SVG: loss by position, bytes by length.

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hydra::metrics {

struct LineSeries {
  std::string name;
  std::vector<std::optional<double>> values;  // one a column; absent: a gap
};

struct LineChart {
  std::string title, x_name, y_name;
  std::vector<std::string> x_labels;
  std::vector<LineSeries> series;
  bool log_scale = false;                              // values must be positive then
  std::function<std::string(double)> value_text = {};  // of the y axis and the tooltips; default: 3 significant digits
};

std::string line_chart_svg(const LineChart& chart);

}  // namespace hydra::metrics
