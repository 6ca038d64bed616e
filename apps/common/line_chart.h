// Curves as an SVG picture. Pure: text out, nothing written.
//
// LC-1  Points that are no numbers are left out; no points at all give the axes (and levels) alone.
#pragma once

#include <optional>
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

/// A dashed line over the whole width.
struct Level {
  double y = 0;
  std::string name = {};
  std::string color = "#c2571a";
};

struct LineChartOptions {
  std::string title = {}, x_label = {}, y_label = {};
  int width = 860, height = 440;
  double x_end = 0;                  ///< at least as far as this
  std::optional<double> y_from = {};  ///< where y begins; none: where the series do
  std::vector<Level> levels = {};
};

/// A complete SVG file: x from 0, y over what series and levels span.
[[nodiscard]] std::string line_chart_svg(const LineChartOptions& options, std::span<const Series> series);

}  // namespace apps
