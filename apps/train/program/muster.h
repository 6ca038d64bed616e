// Muster: when the newcomers of a run are announced. Each formation interrupts the training, so ranks that were lost
// together come back together; but one that finds no place in the cluster keeps none of the others out.
//
// Invariants
//   MU-1  All are ready: at once. One has been ready for kPatience: without those that are not.
// Thread rule: pure; the time comes with the event.
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>

#include <troupe/duration.h>

namespace troupe::train {

class Muster {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr Duration kPatience = std::chrono::seconds(5);

  /// Somebody has looked: so many of the newcomers are ready. True: they are to be announced.
  bool look(TimePoint now, std::size_t ready, std::size_t newcomers) {
    if (ready == 0) first_ready_.reset();
    else if (!first_ready_) first_ready_ = now;
    return ready > 0 && (ready == newcomers || now - *first_ready_ >= kPatience);
  }

 private:
  std::optional<TimePoint> first_ready_;
};

}  // namespace troupe::train
