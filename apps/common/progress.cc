#include "apps/common/progress.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace apps {
namespace {

constexpr int kBarWidth = 28;
constexpr double kTerminalInterval = 0.1;
constexpr double kPlainInterval = 2.0;

}  // namespace

std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string short_rate(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.1f}M", per_second / 1e6);
  return per_second >= 1e4 ? fmt::format("{:.0f}k", per_second / 1e3) : fmt::format("{:.0f}", per_second);
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string bar(double share, int width) {
  if (width <= 0) return {};
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  return fmt::format("[{:#<{}}{:-<{}}] ", "", full, "", width - full);
}

void ProgressReporter::update(double seconds, const std::function<std::string(int bar_width)>& line, bool last) {
  if (!last && seconds - shown_at_ < (terminal_ ? kTerminalInterval : kPlainInterval)) return;
  shown_at_ = seconds;
  if (terminal_) {
    fmt::print(out_, "\r\x1b[2K{}", line(kBarWidth));
    line_open_ = true;
    if (last) end_line();
  } else {
    fmt::print(out_, "{}\n", line(0));
  }
  std::fflush(out_);
}

void ProgressReporter::note(const std::string& text) {
  if (line_open_) fmt::print(out_, "\r\x1b[2K");
  line_open_ = false;
  fmt::print(out_, "{}\n", text);
  std::fflush(out_);
}

void ProgressReporter::end_line() {
  if (!line_open_) return;
  fmt::print(out_, "\n");
  line_open_ = false;
}

}  // namespace apps
