// CallLedger: which of the calls that this daemon passed on to one worker had begun when it died.
//
// The worker notes on its ring to the daemon how many call frames of that ring it has begun (Endpoint::set_begun, in
// their order). The ledger remembers who sent each, so that every source on another node can be told the token of the
// last of its calls that began. Pure.
//
// Invariants
//   CLG-1  last_begun names a source only if one of its calls began, with the token of the last such call.
//   CLG-2  Memory is bounded by the calls that have not begun and by the number of sources.
//
// Thread rule: one thread at a time.
#pragma once
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/ids.h"

namespace troupe::node {

class CallLedger {
 public:
  void forwarded(ProcessId source, std::uint64_t token) { waiting_.push_back({source, token}); }
  /// The worker has begun `count` calls of this ring in all; numbers that go back or ahead of what was sent are not
  /// believed.
  void begun(std::uint64_t count) {
    for (; begun_ < count && !waiting_.empty(); ++begun_) {
      last_[waiting_.front().first] = waiting_.front().second;
      waiting_.pop_front();
    }
  }
  std::vector<std::pair<ProcessId, std::uint64_t>> last_begun() const { return {last_.begin(), last_.end()}; }
  bool has_waiting() const { return !waiting_.empty(); }
  void forget_source(ProcessId source) { last_.erase(source); }

 private:
  std::deque<std::pair<ProcessId, std::uint64_t>> waiting_;
  std::unordered_map<ProcessId, std::uint64_t, IdHash> last_;
  std::uint64_t begun_ = 0;
};

}  // namespace troupe::node
