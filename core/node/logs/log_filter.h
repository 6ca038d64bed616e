// LogFilter: what of a worker's output goes to the driver's terminal. Bytes in, lines out. Pure: the clock is given.
//
// Lines are cut at newlines (and at kLineMax), control characters other than tab are escaped as \xNN. A line equal to
// the one before is counted instead of shown: "... repeated N times" follows when another line comes or at the next
// flush. More than burst lines at once are dropped, with a count, at a refill of lines_per_second.
//
// Invariants
//   LF-1  No byte below 0x20 but tab, and no 0x7f, ever comes out: output cannot move the terminal's cursor.
//   LF-2  Every line that came in is shown, counted in "repeated", or counted in "not shown".
//
// Thread rule: one thread at a time.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/duration.h>

namespace troupe::node {

struct LogFilterOptions {
  double lines_per_second = 500;
  double burst = 2000;
  std::size_t tail_lines = 20;
};
inline constexpr std::size_t kLineMax = 8192;

class LogFilter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  explicit LogFilter(LogFilterOptions options = {}) : options_(options), tokens_(options.burst) {}

  /// Lines to show, in order.
  std::vector<std::string> push(std::string_view bytes, TimePoint now);
  /// Says what is still counted; `end`: also an unfinished last line.
  std::vector<std::string> flush(TimePoint now, bool end);
  bool wants_flush() const { return repeated_ > 0 || dropped_ > 0; }
  /// The last lines that came in, oldest first.
  const std::deque<std::string>& tail() const { return tail_; }

 private:
  void line(std::string text, TimePoint now, std::vector<std::string>& out);
  void say_counts(std::vector<std::string>& out);

  LogFilterOptions options_;
  std::string partial_, last_;
  bool has_last_ = false;
  std::uint64_t repeated_ = 0, dropped_ = 0;
  double tokens_;
  TimePoint refilled_{};
  std::deque<std::string> tail_;
};

std::string escape_line(std::string_view line);

}  // namespace troupe::node
