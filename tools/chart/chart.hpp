// SPDX-License-Identifier: BSD-3-Clause
// A line chart as SVG text, for a page that needs nothing from elsewhere.
#pragma once

#include <string>
#include <vector>

namespace weft::bench {

struct Line {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> low;  // a band around y; empty: none
  std::vector<double> high;
  bool dashed = false;
  size_t colour = 0;  // lines of one controller share it
};

struct Chart {
  std::string title;
  std::string x_name;
  std::string y_name;
  bool log_x = false;
  bool log_y = false;
  std::vector<std::string> categories;  // names of x = 0, 1, 2 ... in place of numbers
  std::vector<Line> lines;
};

// For a page, which says how its classes look: t title, g grid, a axes, l lines.
std::string svg(const Chart& chart);
// For a file of its own.
std::string svg_file(const Chart& chart);
std::string colour_of(size_t index);
// For text within HTML.
std::string escaped(const std::string& text);

}  // namespace weft::bench
