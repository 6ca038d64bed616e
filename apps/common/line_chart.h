// Curves as an SVG picture. Pure: text out, nothing written.
//
// LC-1  Points that are no numbers are left out; no points at all give the axes alone.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace apps {

struct Point {
  double x = 0, y = 0;
};

struct Series {
  std::string name = {};
  std::string color = "#1f6fb2";
  double width = 2;
  bool dots = false;  ///< a dot at each point
  std::vector<Point> points = {};
};

struct LineChartOptions {
  std::string title = {}, x_label = {}, y_label = {};
  int width = 860, height = 440;
};

/// A complete SVG file: x from 0, y over what the series span.
[[nodiscard]] std::string line_chart_svg(const LineChartOptions& options, std::span<const Series> series);

}  // namespace apps
