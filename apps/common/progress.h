// The progress of a long run: a line that redraws itself on a terminal, plain lines elsewhere.
//
// The caller brings the clock (seconds since the run began) and the text. One thread at a time.
//
// PG-1  On a terminal at most one line, redrawn at most ten times a second; elsewhere one line about every two
//       seconds, and no control characters.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace apps {

/// 36,864
[[nodiscard]] std::string grouped(std::int64_t n);
/// 163k, 1.2M
[[nodiscard]] std::string short_rate(double per_second);
/// 0:03, 1:02:03
[[nodiscard]] std::string clock_time(double seconds);
/// "[####----] " of that many characters between the brackets; width 0: nothing.
[[nodiscard]] std::string bar(double share, int width);

class ProgressReporter {
 public:
  ProgressReporter(std::FILE* out, bool terminal) : out_(out), terminal_(terminal) {}
  ~ProgressReporter() { end_line(); }
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  /// Shows line(width of the bar) when it is time to; `last` shows it in any case and ends the line.
  void update(double seconds, const std::function<std::string(int bar_width)>& line, bool last = false);
  /// A line of its own that stays, above the progress.
  void note(const std::string& text);

 private:
  void end_line();

  std::FILE* out_;
  bool terminal_;
  bool line_open_ = false;
  double shown_at_ = -1e9;
};

}  // namespace apps
