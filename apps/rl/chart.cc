#include "apps/rl/chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace rl {
namespace {

constexpr double kLeft = 64, kRight = 24, kTop = 48, kBottom = 56;

struct Plot {
  double width, height, max_x, max_y;
  [[nodiscard]] double x(double v) const { return kLeft + v / max_x * (width - kLeft - kRight); }
  [[nodiscard]] double y(double v) const { return height - kBottom - v / max_y * (height - kTop - kBottom); }
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

std::string label(double v) { return v >= 1000 ? fmt::format("{:g}k", v / 1000) : fmt::format("{:g}", v); }

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

void axes(const Plot& plot, std::string& svg) {
  auto out = std::back_inserter(svg);
  for (double v = 0; v <= plot.max_y * 1.001; v += tick_size(plot.max_y, 5)) {
    fmt::format_to(out, "<line x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}' stroke='#e3e6ea'/>\n", kLeft,
                   plot.width - kRight, plot.y(v), plot.y(v));
    fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>\n", kLeft - 8, plot.y(v) + 4,
                   label(v));
  }
  for (double v = 0; v <= plot.max_x * 1.001; v += tick_size(plot.max_x, 8)) {
    fmt::format_to(out, "<line x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}' stroke='#8a919a'/>\n", plot.x(v),
                   plot.x(v), plot.y(0), plot.y(0) + 5);
    fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n", plot.x(v), plot.y(0) + 20,
                   label(v));
  }
  fmt::format_to(out, "<line x1='{0:.1f}' x2='{1:.1f}' y1='{2:.1f}' y2='{2:.1f}' stroke='#8a919a'/>\n", kLeft,
                 plot.width - kRight, plot.y(0));
  fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>environment steps</text>\n",
                 (kLeft + plot.width - kRight) / 2, plot.height - 14);
  fmt::format_to(
      out,
      "<text transform='translate(16 {:.1f}) rotate(-90)' text-anchor='middle'>mean return, last 100 episodes</text>\n",
      (plot.y(0) + kTop) / 2);
}

}  // namespace

std::string learning_curve_svg(const TrainingLog& log, const ChartOptions& options) {
  double highest = log.threshold;
  for (const CurvePoint& point : log.curve) highest = std::max(highest, static_cast<double>(point.mean_return));
  const Plot plot{static_cast<double>(options.width), static_cast<double>(options.height),
                  static_cast<double>(std::max<std::int64_t>(log.steps, 1000)), std::ceil(highest / 100) * 100};
  std::string svg;
  auto out = std::back_inserter(svg);
  fmt::format_to(
      out,
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
      "font-family='sans-serif' font-size='12' fill='#3a4048'>\n<rect width='100%' height='100%' fill='#ffffff'/>\n"
      "<text x='{2:.1f}' y='28' font-size='16'>{3}</text>\n",
      options.width, options.height, kLeft, escaped(options.title));
  axes(plot, svg);
  fmt::format_to(out,
                 "<line x1='{0:.1f}' x2='{1:.1f}' y1='{2:.1f}' y2='{2:.1f}' stroke='#c2571a' stroke-dasharray='6 4'/>\n"
                 "<text x='{3:.1f}' y='{4:.1f}' fill='#c2571a'>solved at {5:g}</text>\n",
                 kLeft, plot.width - kRight, plot.y(log.threshold), kLeft + 8, plot.y(log.threshold) - 6,
                 log.threshold);
  if (!log.curve.empty()) {
    svg += "<polyline fill='none' stroke='#1f6fb2' stroke-width='2' points='";
    for (const CurvePoint& p : log.curve) {
      fmt::format_to(out, "{:.1f},{:.1f} ", plot.x(static_cast<double>(p.steps)),
                     plot.y(static_cast<double>(p.mean_return)));
    }
    svg += "'/>\n";
  }
  if (log.solved()) {
    const double x = plot.x(static_cast<double>(log.solved_steps));
    fmt::format_to(
        out,
        "<circle cx='{:.1f}' cy='{:.1f}' r='5' fill='#c2571a'/>\n<text x='{:.1f}' y='{:.1f}' text-anchor='end'>"
        "{} steps, {:.2f} s</text>\n",
        x, plot.y(log.threshold), x - 10, plot.y(log.threshold) + 20, log.solved_steps, log.solved_seconds);
  }
  return svg + "</svg>\n";
}

}  // namespace rl
