// Curves as an SVG picture. Pure: text out, nothing written.
//
// LC-1  Points that are no numbers are left out; no points at all give the axes (and levels) alone.
// LC-2  What has a name is in the legend, a row between title and plot, with a sample of how it is drawn. Without names
//       there is no such row.
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
  double opacity = 1;
  std::string dashes = {};  ///< SVG's stroke-dasharray; empty: a line without gaps
};

/// Filled between `low` and `high`: an interval around a curve. Bands lie below the curves.
struct Band {
  struct Edge {
    double x = 0, low = 0, high = 0;
  };
  std::string name = {};
  std::string color = "#1f6fb2";
  double opacity = 0.2;
  std::vector<Edge> edges = {};
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
  std::vector<Band> bands = {};
};

/// A complete SVG file: x from 0, y over what series, bands and levels span.
[[nodiscard]] std::string line_chart_svg(const LineChartOptions& options, std::span<const Series> series);

}  // namespace apps
