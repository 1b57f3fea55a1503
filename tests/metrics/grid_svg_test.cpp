#include "hydrahead/metrics/grid_svg.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/xml_check.hpp"

namespace hydra::metrics {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(GridSvg, SmallGridsCarryTooltips) {
  const Grid grid{.title = "a < b",
                  .x_name = "head",
                  .y_name = "layer",
                  .rows = 2,
                  .columns = 3,
                  .values = {0, 0.5, 1, 2, std::numeric_limits<double>::quiet_NaN(), 0.25}};
  const std::string svg = grid_svg(grid);
  EXPECT_EQ(test::xml_problem(svg), "");
  EXPECT_NE(svg.find("layer 0, head 1: 0.5"), std::string::npos);
  EXPECT_NE(svg.find("layer 1, head 1: none"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(svg.find(" fill=\"#f7f7f7\"><title>layer 0, head 0"), std::string::npos);  // low end
  EXPECT_NE(svg.find(" fill=\"#2166ac\"><title>layer 1, head 0"), std::string::npos);  // beyond the high end
}

TEST(GridSvg, FramesStandOnTheirCells) {
  Grid grid{.title = "t", .x_name = "head", .y_name = "layer", .rows = 2, .columns = 3, .values = {0, 1, 2, 3, 4, 5}};
  EXPECT_EQ(count(grid_svg(grid), "fill=\"none\""), 0u);
  grid.framed = {{0, 2}, {1, 0}};
  const std::string svg = grid_svg(grid);
  EXPECT_EQ(test::xml_problem(svg), "");
  EXPECT_EQ(count(svg, "fill=\"none\" stroke=\"#e08214\""), 2u);
  // Cells of 20 pixels from (52, 44); a frame of 2 pixels lies inside its cell.
  EXPECT_NE(svg.find("<rect x=\"93.00\" y=\"45.00\" width=\"18.00\" height=\"18.00\" fill=\"none\""),
            std::string::npos);
  EXPECT_NE(svg.find("<rect x=\"53.00\" y=\"65.00\" width=\"18.00\" height=\"18.00\" fill=\"none\""),
            std::string::npos);
}

TEST(GridSvg, LargeGridsAreOneBitmap) {
  Grid grid{.title = "many", .x_name = "x", .y_name = "y", .rows = 201, .columns = 203, .values = {}};
  grid.values.assign(201 * 203, 0.5);
  grid.lines_every = 50;
  const std::string svg = grid_svg(grid);
  EXPECT_EQ(test::xml_problem(svg), "");
  EXPECT_EQ(count(svg, "<image "), 1u);
  EXPECT_LT(count(svg, "<rect "), 50u);
  EXPECT_EQ(count(svg, "<line "), 8u);
  // "BM", then the file's size: header 1078 and 201 rows of 204 bytes = 42082 = 0xa462.
  EXPECT_NE(svg.find("data:image/bmp;base64,Qk1ipAAAAAAAADYEAAAoAAAAywAAAMkAAAABAAgA"), std::string::npos);
  EXPECT_GT(svg.size() - svg.find("base64,"), 42082u * 4 / 3);
}

}  // namespace
}  // namespace hydra::metrics
