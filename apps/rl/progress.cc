#include "apps/rl/progress.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace rl {
namespace {

constexpr int kBarWidth = 28;
constexpr double kTerminalInterval = 0.1;
constexpr double kPlainInterval = 2.0;

std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string rate(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.1f}M", per_second / 1e6);
  return per_second >= 1e4 ? fmt::format("{:.0f}k", per_second / 1e3) : fmt::format("{:.0f}", per_second);
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

std::string progress_line(const ProgressView& view, int bar_width) {
  const double share = std::clamp(
      static_cast<double>(view.steps) / static_cast<double>(std::max<std::int64_t>(view.total_steps, 1)), 0.0, 1.0);
  const double per_second = view.seconds > 0 ? static_cast<double>(view.steps_this_run) / view.seconds : 0;
  const auto left = static_cast<double>(std::max<std::int64_t>(view.total_steps - view.steps, 0));
  std::string line;
  if (bar_width > 0) {
    const int full = static_cast<int>(share * bar_width);
    line = fmt::format("[{:#<{}}{:-<{}}] ", "", full, "", bar_width - full);
  }
  line += fmt::format("{}/{} steps  {} steps/s  return {:.1f}  ETA ", grouped(view.steps), grouped(view.total_steps),
                      rate(per_second), view.mean_return);
  return line + (per_second > 0 ? clock_time(left / per_second) : "-:--");
}

void ProgressReporter::update(const ProgressView& view, bool last) {
  if (!last && view.seconds - shown_at_ < (terminal_ ? kTerminalInterval : kPlainInterval)) return;
  shown_at_ = view.seconds;
  if (terminal_) {
    fmt::print(out_, "\r\x1b[2K{}", progress_line(view, kBarWidth));
    line_open_ = true;
    if (last) end_line();
  } else {
    fmt::print(out_, "{}\n", progress_line(view, 0));
  }
  std::fflush(out_);
}

void ProgressReporter::end_line() {
  if (!line_open_) return;
  fmt::print(out_, "\n");
  line_open_ = false;
}

}  // namespace rl
