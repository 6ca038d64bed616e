// Claim: a request's place in the queue of another node, where it would have room but for the tasks there. Pure.
//
//   none --open--> at a node --close--> none
//   closed when it is granted, given back or taken back there, when the node dies, when the request wants less, and
//   when a node with room takes the request
//
// It waits there for `first`, the next time for twice as long, up to `most`; for `first` again once the request had a
// place.
//
// Thread rule: one thread at a time.
//
// Invariants
//   CLM-1  A request has one claim at a time.
//   CLM-2  Claims go round the nodes that would do, in the order of their numbers, from its own node's on.
#pragma once
#include <algorithm>
#include <cstdint>

#include <troupe/duration.h>

#include "scheduler/policy.h"

namespace troupe::sched {

class Claim {
 public:
  struct Options {
    Duration first{}, most{};
  };

  bool is_open() const { return node_ != 0; }
  bool is_at(std::uint32_t node) const { return is_open() && node_ == node; }
  std::uint32_t node() const { return node_; }  ///< 0: none
  /// The node of the last one; 0: there was none.
  std::uint32_t last() const { return last_; }
  /// How long the last one waits, or waited, there.
  Duration wait() const { return wait_; }

  void open(std::uint32_t node, const Options& options) {
    node_ = last_ = node;
    wait_ = next_wait_ == Duration::zero() ? options.first : next_wait_;
    next_wait_ = std::min(2 * wait_, options.most);
  }
  void close() { node_ = 0; }
  void close_at(std::uint32_t node) { if (is_at(node)) close(); }
  /// The request had a place.
  void progressed() { next_wait_ = {}; }

 private:
  std::uint32_t node_ = 0, last_ = 0;
  Duration wait_{}, next_wait_{};
};

/// The next node after `last` where this request, for which none has room now, would have room but for the tasks there
/// (CLM-2). No last one: 0. None: 0.
std::uint32_t node_to_claim(const ClusterView& view, const Request& request, const Asker& asker, std::uint32_t last);

}  // namespace troupe::sched
