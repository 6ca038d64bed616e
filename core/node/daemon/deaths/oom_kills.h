// OomKills: which deaths by SIGKILL were the kernel's, for lack of memory. It says only how many there were, of all
// processes that it watches, so a kill that is seen is laid to the first such death that follows soon.
//
// Thread rule: one thread.
//
// Invariants
//   OOK-1  What the machine had counted before this was made is nobody's death here.
//   OOK-2  Each kill explains one death; one that explains none within kKept (it was somebody else's process) is
//          forgotten.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

namespace troupe::node {

class OomKills {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr auto kKept = std::chrono::seconds(5);
  static constexpr std::uint64_t kOpenMax = 1024;

  /// `count`: how many there have been so far.
  explicit OomKills(std::function<std::uint64_t()> count) : count_(std::move(count)), seen_(count_()) {}

  /// Somebody has died, in whatever way: what is counted since was meanwhile.
  void look(TimePoint now) {
    const std::uint64_t before = std::exchange(seen_, count_());
    const std::uint64_t more = seen_ > before ? std::min(seen_ - before, kOpenMax) : 0;
    open_.insert(open_.end(), static_cast<std::size_t>(more), now);
    while (!open_.empty() && (now - open_.front() > kKept || open_.size() > kOpenMax)) open_.pop_front();
  }
  /// Does one of the kills explain a death by SIGKILL that is seen now?
  bool claim(TimePoint now) {
    look(now);
    if (open_.empty()) return false;
    open_.pop_front();
    return true;
  }

 private:
  const std::function<std::uint64_t()> count_;
  std::uint64_t seen_;
  std::deque<TimePoint> open_;  // kills that have explained no death yet, by when they were seen
};

}  // namespace troupe::node
