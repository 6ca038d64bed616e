// CallLedger: which of the calls that this daemon passed on to one worker had begun when it died.
//
// The worker notes on its ring to the daemon which call frames of that ring it has begun (Endpoint::set_begun, by their
// place in it). The ledger remembers who sent each, so that every source is told which of its own calls began: up to
// which number all of them, and beyond that each by its number. Pure.
//
// Invariants
//   CLG-1  What is told of a source is exactly which of its calls had begun, as far as the ring knows it (BG-1, BG-2).
//   CLG-2  Memory is bounded by the calls that have not begun, the window of the ring and the number of sources.
//
// Thread rule: one thread at a time.
#pragma once
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/net/ring/begun.h"

namespace troupe::node {

class CallLedger {
 public:
  using Numbers = std::vector<std::pair<ProcessId, std::uint64_t>>;

  void forwarded(ProcessId source, std::uint64_t token) { waiting_.push_back({source, token}); }
  /// What the worker has begun of this ring by now; a count that goes back, or ahead of what was sent, is not believed.
  void begun(const net::BegunCalls& ring) {
    ring_ = ring;
    for (; done_ < ring.low && !waiting_.empty(); ++done_) {
      last_[waiting_.front().first] = waiting_.front().second;
      waiting_.pop_front();
    }
  }
  /// For each source of which any have: the number up to which all of its calls had begun.
  Numbers begun_up_to() const { return {last_.begin(), last_.end()}; }
  /// Calls that had begun before others that came earlier.
  Numbers begun_beyond() const {
    Numbers beyond;
    for (std::size_t i = 0; i < waiting_.size(); ++i)
      if (ring_.has(done_ + 1 + i)) beyond.push_back(waiting_[i]);
    return beyond;
  }
  bool has_waiting() const { return !waiting_.empty(); }
  void forget_source(ProcessId source) { last_.erase(source); }

 private:
  std::deque<std::pair<ProcessId, std::uint64_t>> waiting_;  // in their order on the ring
  std::unordered_map<ProcessId, std::uint64_t, IdHash> last_;
  net::BegunCalls ring_;
  std::uint64_t done_ = 0;  // calls of the ring that are in waiting_ no more
};

}  // namespace troupe::node
