// The progress of a long run: a bar that redraws itself on a terminal, plain lines elsewhere.
//
// The caller brings the clock (seconds since the run began). One thread at a time.
//
// PG-1  On a terminal at most one line, redrawn at most ten times a second; elsewhere one line about every two
//       seconds, and no control characters.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace rl {

struct ProgressView {
  std::int64_t steps = 0;  // done, those before a resume included
  std::int64_t total_steps = 0;
  std::int64_t steps_this_run = 0;
  double seconds = 0;  // of this run
  double mean_return = 0;
};

/// "[####----] 36,864/500,000 steps  163k steps/s  return 212.4  ETA 0:03". The bar is bar_width characters; 0: no bar.
[[nodiscard]] std::string progress_line(const ProgressView& view, int bar_width);

class ProgressReporter {
 public:
  ProgressReporter(std::FILE* out, bool terminal) : out_(out), terminal_(terminal) {}
  ~ProgressReporter() { end_line(); }
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  /// Shows the state when it is time to; `last` shows it in any case and ends the line.
  void update(const ProgressView& view, bool last = false);

 private:
  void end_line();

  std::FILE* out_;
  bool terminal_;
  bool line_open_ = false;
  double shown_at_ = -1e9;
};

}  // namespace rl
