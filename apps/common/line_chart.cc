#include "apps/common/line_chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include <fmt/format.h>

namespace apps {
namespace {

constexpr double kLeft = 64, kRight = 24, kTop = 48, kBottom = 56;
constexpr double kLegendHeight = 22;
constexpr double kLetterWidth = 6.4;  // of 12 px sans-serif, on average: a picture knows no fonts

struct Plot {
  double width, height, top, max_x, min_y, max_y;
  [[nodiscard]] double x(double v) const { return kLeft + v / max_x * (width - kLeft - kRight); }
  [[nodiscard]] double y(double v) const {
    return height - kBottom - (v - min_y) / (max_y - min_y) * (height - top - kBottom);
  }
};

// 1, 2 or 5 times a power of ten, so that about `count` of them reach `span`.
double tick_size(double span, int count) {
  const double rough = span / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::string label(double v) {
  if (std::abs(v) >= 1e6) return fmt::format("{:g}M", v / 1e6);
  if (std::abs(v) >= 1000) return fmt::format("{:g}k", v / 1000);
  return fmt::format("{:.6g}", std::abs(v) < 1e-12 ? 0 : v);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

bool drawn(const Point& point) { return std::isfinite(point.x) && std::isfinite(point.y); }
bool drawn(const Band::Edge& edge) {
  return std::isfinite(edge.x) && std::isfinite(edge.low) && std::isfinite(edge.high);
}

bool has_legend(const LineChartOptions& options, std::span<const Series> series) {
  const auto named = [](const auto& one) { return !one.name.empty(); };
  return std::ranges::any_of(series, named) || std::ranges::any_of(options.bands, named);
}

Plot plot_of(const LineChartOptions& options, std::span<const Series> series) {
  double max_x = options.x_end, min_y = std::numeric_limits<double>::infinity(), max_y = -min_y;
  for (const Series& one : series) {
    for (const Point& point : one.points) {
      if (!drawn(point)) continue;
      max_x = std::max(max_x, point.x);
      min_y = std::min(min_y, point.y);
      max_y = std::max(max_y, point.y);
    }
  }
  for (const Band& band : options.bands) {
    for (const Band::Edge& edge : band.edges) {
      if (!drawn(edge)) continue;
      max_x = std::max(max_x, edge.x);
      min_y = std::min(min_y, edge.low);
      max_y = std::max(max_y, edge.high);
    }
  }
  for (const Level& level : options.levels) {
    min_y = std::min(min_y, level.y);
    max_y = std::max(max_y, level.y);
  }
  if (options.y_from) min_y = *options.y_from, max_y = std::max(max_y, min_y);
  if (min_y > max_y) min_y = 0, max_y = 1;
  if (max_y - min_y < 1e-9) min_y -= 0.5, max_y += 0.5;
  const double step = tick_size(max_y - min_y, 5);
  return {.width = static_cast<double>(options.width),
          .height = static_cast<double>(options.height),
          .top = has_legend(options, series) ? kTop + kLegendHeight : kTop,
          .max_x = max_x > 0 ? max_x : 1,
          .min_y = std::floor(min_y / step) * step,
          .max_y = std::ceil(max_y / step) * step};
}

void axes(const Plot& plot, const LineChartOptions& options, std::string& svg) {
  auto out = std::back_inserter(svg);
  const double step = tick_size(plot.max_y - plot.min_y, 5);
  for (int i = 0; plot.min_y + i * step <= plot.max_y + step * 1e-3; ++i) {
    const double v = plot.min_y + i * step;
    fmt::format_to(out, "<line x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}' stroke='#e3e6ea'/>\n", kLeft,
                   plot.width - kRight, plot.y(v), plot.y(v));
    fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>\n", kLeft - 8, plot.y(v) + 4,
                   label(v));
  }
  const double base = plot.y(plot.min_y);
  for (double v = 0; v <= plot.max_x * 1.001; v += tick_size(plot.max_x, 8)) {
    fmt::format_to(out, "<line x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}' stroke='#8a919a'/>\n", plot.x(v),
                   plot.x(v), base, base + 5);
    fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n", plot.x(v), base + 20, label(v));
  }
  fmt::format_to(out, "<line x1='{0:.1f}' x2='{1:.1f}' y1='{2:.1f}' y2='{2:.1f}' stroke='#8a919a'/>\n", kLeft,
                 plot.width - kRight, base);
  fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n",
                 (kLeft + plot.width - kRight) / 2, plot.height - 14, escaped(options.x_label));
  fmt::format_to(out, "<text transform='translate(16 {:.1f}) rotate(-90)' text-anchor='middle'>{}</text>\n",
                 (base + plot.top) / 2, escaped(options.y_label));
}

std::string line_style(const Series& series) {
  std::string style;
  if (series.opacity < 1) style += fmt::format(" stroke-opacity='{:g}'", series.opacity);
  if (!series.dashes.empty()) style += fmt::format(" stroke-dasharray='{}'", series.dashes);
  return style;
}

void draw(const Plot& plot, const Band& band, std::string& svg) {
  std::vector<Band::Edge> edges;
  std::ranges::copy_if(band.edges, std::back_inserter(edges), [](const Band::Edge& edge) { return drawn(edge); });
  if (edges.empty()) return;
  auto out = std::back_inserter(svg);
  fmt::format_to(out, "<polygon fill='{}' fill-opacity='{:g}' points='", band.color, band.opacity);
  for (const Band::Edge& edge : edges) fmt::format_to(out, "{:.1f},{:.1f} ", plot.x(edge.x), plot.y(edge.high));
  std::ranges::reverse(edges);
  for (const Band::Edge& edge : edges) fmt::format_to(out, "{:.1f},{:.1f} ", plot.x(edge.x), plot.y(edge.low));
  svg += "'/>\n";
}

void draw(const Plot& plot, const Series& series, std::string& svg) {
  auto out = std::back_inserter(svg);
  if (std::ranges::none_of(series.points, [](const Point& point) { return drawn(point); })) return;
  fmt::format_to(out, "<polyline fill='none' stroke='{}' stroke-width='{:g}'{} points='", series.color, series.width,
                 line_style(series));
  for (const Point& point : series.points)
    if (drawn(point)) fmt::format_to(out, "{:.1f},{:.1f} ", plot.x(point.x), plot.y(point.y));
  svg += "'/>\n";
  if (!series.dots) return;
  for (const Point& point : series.points)
    if (drawn(point))
      fmt::format_to(out, "<circle cx='{:.1f}' cy='{:.1f}' r='4' fill='{}'/>\n", plot.x(point.x), plot.y(point.y),
                     series.color);
}

void draw_levels(const Plot& plot, const LineChartOptions& options, std::string& svg) {
  for (const Level& level : options.levels)
    fmt::format_to(std::back_inserter(svg),
                   "<line x1='{0:.1f}' x2='{1:.1f}' y1='{2:.1f}' y2='{2:.1f}' stroke='{5}' stroke-dasharray='6 4'/>\n"
                   "<text x='{3:.1f}' y='{4:.1f}' fill='{5}'>{6}</text>\n",
                   kLeft, plot.width - kRight, plot.y(level.y), kLeft + 8, plot.y(level.y) - 6, level.color,
                   escaped(level.name));
}

// One entry of the legend; gives where the next one begins.
double legend_entry(double x, double y, const std::string& sample, const std::string& name, std::string& svg) {
  fmt::format_to(std::back_inserter(svg),
                 "<g transform='translate({:.1f} {:.1f})'>{}<text x='28' y='4'>{}</text></g>\n", x, y, sample,
                 escaped(name));
  return x + 28 + kLetterWidth * static_cast<double>(name.size()) + 18;
}

void legend(const Plot& plot, const LineChartOptions& options, std::span<const Series> series, std::string& svg) {
  double x = kLeft;
  const double y = plot.top - kLegendHeight / 2 - 4;
  for (const Series& one : series) {
    if (one.name.empty()) continue;
    const std::string sample =
        one.dots ? fmt::format("<circle cx='11' cy='0' r='4' fill='{}'/>", one.color)
                 : fmt::format("<line x2='22' stroke='{}' stroke-width='{:g}'{}/>", one.color, one.width,
                               line_style(one));
    x = legend_entry(x, y, sample, one.name, svg);
  }
  for (const Band& band : options.bands) {
    if (band.name.empty()) continue;
    const std::string sample = fmt::format("<rect y='-6' width='22' height='12' fill='{}' fill-opacity='{:g}'/>",
                                           band.color, band.opacity);
    x = legend_entry(x, y, sample, band.name, svg);
  }
}

}  // namespace

std::string line_chart_svg(const LineChartOptions& options, std::span<const Series> series) {
  const Plot plot = plot_of(options, series);
  std::string svg;
  auto out = std::back_inserter(svg);
  fmt::format_to(
      out,
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
      "font-family='sans-serif' font-size='12' fill='#3a4048'>\n<rect width='100%' height='100%' fill='#ffffff'/>\n"
      "<text x='{2:.1f}' y='28' font-size='16'>{3}</text>\n",
      options.width, options.height, kLeft, escaped(options.title));
  axes(plot, options, svg);
  for (const Band& band : options.bands) draw(plot, band, svg);
  draw_levels(plot, options, svg);
  for (const Series& one : series) draw(plot, one, svg);
  legend(plot, options, series, svg);
  return svg + "</svg>\n";
}

}  // namespace apps
