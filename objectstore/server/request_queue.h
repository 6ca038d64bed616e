// RequestQueue: requests for memory that wait for room, first in, first out. Pure.
//
// Invariants
//   SRQ-1  Requests leave in the order in which they came, unless they are dropped or expire.
//
// Thread rule: one thread at a time.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "objectstore/arena/lease.h"

namespace troupe::store {

using TimePoint = std::chrono::steady_clock::time_point;
inline constexpr TimePoint kNever = TimePoint::max();

/// A request's name, chosen by the caller; comes back in the effect that answers it.
using Token = std::uint64_t;

/// One request for memory: of a client (lease, buffer), or of the daemon itself (a copy).
struct MemoryRequest {
  enum class Kind { kLease, kAllocate, kCopy } kind = Kind::kAllocate;
  ProcessId client = {};
  Token token = 0;
  LeaseRequest lease = {};
  std::uint64_t size = 0;
  BufferId remote = {};
  TimePoint deadline = kNever;

  bool is(ProcessId of, Token name) const { return kind != Kind::kCopy && client == of && token == name; }
  bool belongs_to(ProcessId of) const { return kind != Kind::kCopy && client == of; }
  bool copies(BufferId what) const { return kind == Kind::kCopy && remote == what; }
  std::uint64_t bytes() const { return kind == Kind::kLease ? lease.bytes : size; }
};

class RequestQueue {
 public:
  bool empty() const { return queue_.empty(); }
  std::size_t size() const { return queue_.size(); }
  void push(MemoryRequest request) { queue_.push_back(std::move(request)); }
  /// Serves from the front until `serve` returns false (no room): that request stays first.
  template <class F>
  void serve(F&& serve) {
    while (!queue_.empty()) {
      MemoryRequest request = std::move(queue_.front());
      queue_.pop_front();
      if (serve(request)) continue;
      queue_.push_front(std::move(request));
      return;
    }
  }
  template <class F>
  void drop_if(F&& which) {
    std::erase_if(queue_, which);
  }
  template <class F>
  bool any(F&& which) const {
    return std::any_of(queue_.begin(), queue_.end(), which);
  }
  /// Takes out those whose deadline has passed.
  std::vector<MemoryRequest> expired(TimePoint now);
  TimePoint next_deadline() const;  ///< kNever: none

 private:
  std::deque<MemoryRequest> queue_;
};

}  // namespace troupe::store
