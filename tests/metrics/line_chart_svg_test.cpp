#include "hydrahead/metrics/line_chart_svg.hpp"

#include <gtest/gtest.h>

#include "tests/support/xml_check.hpp"

namespace hydra::metrics {
namespace {

LineChart small_chart() {
  return {.title = "loss <by> position",
          .x_name = "position",
          .y_name = "nats",
          .x_labels = {"0-64", "64-128", "128-256"},
          .series = {{"teacher & co", {4.0, 3.0, 2.5}}, {"hybrid", {4.5, std::nullopt, 2.75}}},
          .log_scale = false,
          .value_text = {}};
}

TEST(LineChart, IsWellFormedAndNamesItsSeries) {
  const std::string svg = line_chart_svg(small_chart());
  EXPECT_EQ(test::xml_problem(svg), "");
  EXPECT_NE(svg.find("teacher &amp; co"), std::string::npos);
  EXPECT_EQ(svg.find("href"), std::string::npos);
}

TEST(LineChart, AGapBreaksTheLine) {
  const std::string svg = line_chart_svg(small_chart());
  const std::size_t second = svg.find("<path", svg.find("<path") + 1);
  const std::string path = svg.substr(second, svg.find("/>", second) - second);
  EXPECT_EQ(path.find(" L"), std::string::npos);
  EXPECT_NE(path.find(" M"), std::string::npos);
}

TEST(LineChart, EqualAndSingleValuesDrawFiniteCoordinates) {
  LineChart chart = small_chart();
  chart.series = {{"flat", {2.0, 2.0, 2.0}}};
  for (const bool log_scale : {false, true}) {
    chart.log_scale = log_scale;
    const std::string svg = line_chart_svg(chart);
    EXPECT_EQ(test::xml_problem(svg), "");
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

}  // namespace
}  // namespace hydra::metrics
