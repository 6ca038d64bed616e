// HoldTable: what the frames on their way keep alive, on both ends.
//
// Refs that the sender owns are granted to the receiver at once (OW-3). Everything else in a value (borrowed refs,
// buffers, handles) is held by the sender until the receiver acknowledges the frame:
//
//   sender                      receiver                                  owner | node daemon | head
//   HELD(token) --frame-------> ARRIVING --kBorrow, kStoreHold, counts--> counted
//   gone <------kHoldAck------- ARRIVED  <---------confirmed-------------
//
// Invariants
//   OH-1  A frame with hold token t is acknowledged once, after everything in it is counted for the receiver; holds for
//         a receiver that died are dropped.
// Thread rule: lock held.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <vector>

#include "core/base/ids.h"
#include "core/net/base/frame.h"
#include <troupe/detail/counted.h>

namespace troupe::worker {

class FrameRouter;

/// What a frame under construction keeps alive.
class Outgoing {
 public:
  explicit Outgoing(ProcessId destination) : destination(destination) {}
  ProcessId destination;
  std::vector<detail::ObjectPtr> objects;
  std::vector<detail::BufferPtr> buffers;
  std::vector<detail::HandlePtr> handles;
  bool empty() const { return objects.empty() && buffers.empty() && handles.empty(); }
};

/// One frame that is being taken in: who sent it, and the number under which it waits for its counts (0: nothing to
/// wait for).
struct Arrival {
  ProcessId source;
  std::uint64_t number = 0;
};

class HoldTable {
 public:
  explicit HoldTable(FrameRouter& frames) : frames_(frames) {}

  // ---- as sender
  /// Registers what a frame holds; its token, 0 when there is nothing to hold or the receiver is dead.
  std::uint64_t hold(Outgoing outgoing);
  /// The payload of a kHoldAck.
  void acknowledged(ByteView payload);

  // ---- as receiver
  /// Begins to take in a frame; `token` as it came, 0 for frames without a hold. Ends with end().
  Arrival begin(ProcessId source, std::uint64_t token);
  /// Takes in what came by way of another and has no token: `taken` is called, under the lock, when all is counted.
  Arrival begin(ProcessId giver, std::function<void()> taken);
  /// One more count must be confirmed before the frame is acknowledged.
  void expect(std::uint64_t arrival);
  void confirmed(std::uint64_t arrival);
  void end(const Arrival& arrival) { confirmed(arrival.number); }

  void process_died(ProcessId process);
  void node_died(std::uint32_t node);
  /// Forgets everything, when the process is taken apart.
  void clear();

  /// Frames sent and not acknowledged; frames arrived and not acknowledged.
  std::size_t held() const { return holds_.size(); }
  std::size_t arriving() const { return arrivals_.size(); }
  template <class F> void for_each_hold(F&& f) {
    for (auto& [token, hold] : holds_) f(hold);
  }

 private:
  struct Arriving {
    ProcessId source;
    std::uint64_t token = 0;
    std::uint32_t missing = 0;
    std::function<void()> taken = {};   // instead of the acknowledgement
  };

  FrameRouter& frames_;
  std::uint64_t last_hold_ = 0, last_arrival_ = 0;
  boost::unordered_flat_map<std::uint64_t, Outgoing> holds_;
  boost::unordered_flat_map<std::uint64_t, Arriving> arrivals_;
};

}  // namespace troupe::worker
