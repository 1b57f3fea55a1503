#pragma once
// A matrix as one self-contained SVG without numbers in the cells: values of heads by layer, similarities of all heads.
// Up to ten thousand cells carry tooltips; more are drawn as one bitmap inside the SVG.

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hydra::metrics {

struct Grid {
  std::string title;
  std::string x_name, y_name;  // columns count from the left, rows from the top, both from 0
  int rows = 0, columns = 0;
  std::vector<double> values;                                    // row by row; what is not finite is grey
  double low = 0, high = 1;                                      // ends of the colour scale
  bool diverging = false;                                        // red over white to blue; else white to blue
  int lines_every = 0;                                           // a line after so many rows and columns; 0: none
  std::function<std::string(int row, int column)> tooltip = {};  // default: row, column and value
  std::vector<std::pair<int, int>> framed = {};                  // (row, column) of cells to stand out
};

std::string grid_svg(const Grid& grid);

}  // namespace hydra::metrics
