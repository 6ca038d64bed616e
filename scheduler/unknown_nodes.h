// UnknownNodes: ids of nodes that were asked for and that the view does not name, and until when news of each is
// awaited. Pure.
//
//   asked for --> awaited for `wait` --> passed over, for good: an id is given to one node only
//   a node that the view has lost is passed over from the start
//
// Thread rule: none of its own.
//
// Invariants
//   SUN-1  An id is awaited once, whoever asks and however often.
//   SUN-2  At most kKept ids are remembered; the one that was met first is forgotten, and would be awaited again.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "core/base/clock.h"

namespace troupe::sched {

class UnknownNodes {
 public:
  static constexpr std::size_t kKept = 1024;

  /// Until when whoever asks for the node waits; nothing when it is passed over.
  std::optional<TimePoint> awaited_until(const std::string& node_id, TimePoint now, Duration wait) {
    const TimePoint until = remember(node_id, now + wait);
    return now < until ? std::optional(until) : std::nullopt;
  }
  /// It was there, and is dead.
  void gone(const std::string& node_id) { remember(node_id, TimePoint::min()) = TimePoint::min(); }

 private:
  TimePoint& remember(const std::string& node_id, TimePoint until) {
    auto [at, fresh] = until_.emplace(node_id, until);
    if (fresh) {
      order_.push_back(node_id);
      if (order_.size() > kKept) {
        until_.erase(order_.front());
        order_.pop_front();
      }
    }
    return at->second;
  }

  std::map<std::string, TimePoint> until_;
  std::deque<std::string> order_;
};

}  // namespace troupe::sched
