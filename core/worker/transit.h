// Transit: values on their way between processes, and the counts that keep alive what rides beside their bytes.
//
// Sending. Refs owned here are granted to the receiver at once (OW-3). Everything else in a value (borrowed refs, buffers,
// handles) is held by the sender until the receiver acknowledges the frame:
//
//   sender                      receiver                                  owner | node daemon | head
//   HELD(token) --frame-------> ARRIVING --kBorrow, kStoreHold, counts--> counted
//   gone <------kHoldAck------- ARRIVED  <---------confirmed-------------
//
// Invariants
//   TR-1  A frame with hold token t is acknowledged once, after everything in it is counted for the receiver; holds for a
//         receiver that died are dropped.
//   TR-2  A buffer of this node is pinned before its frame is acknowledged; a pin that fails makes the buffer LOST, never
//         other bytes.
// Thread rule: lock held, but for fetch_all, which waits.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <vector>

#include "core/wire/messages.h"
#include "core/worker/buffers.h"
#include "core/worker/frames.h"
#include "core/worker/objects.h"

namespace troupe::worker {

struct PendingCall;

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

class Transit final : public OwnershipEffects {
 public:
  explicit Transit(Core& core) : core_(core) {}

  // ---- hot frames
  void write(FrameWriter& out, const detail::Value& value, Outgoing& hold);
  /// Registers the hold; 0 when there is nothing to hold.
  std::uint64_t hold(Outgoing outgoing);
  struct Arrival { ProcessId source; std::uint64_t token = 0; std::uint32_t missing = 0; };
  /// Begin and end of taking in one frame: between them read() any number of values.
  std::uint64_t begin_arrival(ProcessId source, std::uint64_t token);  // 0 for frames without a hold
  detail::Value read(FrameReader& in, std::uint64_t arrival);
  void end_arrival(std::uint64_t arrival);
  void acknowledged(ByteView payload);
  /// A reply that nobody waits for any more: what rides in it is taken in and let go, or its sender would keep it (TR-1).
  void discard(const ReplyHead& head, FrameReader& in, ProcessId source);

  // ---- control messages
  wire::ValueDesc describe(const detail::Value& value, Outgoing& hold);
  detail::Value restore(const wire::ValueDesc& desc, std::uint64_t arrival);

  // ---- buffers
  detail::BufferPtr buffer(const wire::BufferDesc& desc, std::uint64_t arrival);
  /// Waits until the memory of all buffers of these values is here. Not under the lock. False when the deadline passed.
  Result<bool> fetch_all(const detail::Value& value, exec::Deadline deadline);
  void dropped(BufferEntry& entry);

  void process_died(ProcessId process);
  void node_died(std::uint32_t node);
  void borrowed(ObjectId id);
  /// Frames sent and not acknowledged, frames arrived and not acknowledged.
  std::size_t held() const { return holds_.size(); }
  template <class F> void for_each_hold(F&& f) { for (auto& [token, hold] : holds_) f(hold); }
  std::size_t arriving() const { return arrivals_.size(); }
  /// Forgets both (Core::let_go).
  void let_go();

  // ---- OwnershipEffects
  void send_release(ProcessId owner, ObjectId id, std::uint32_t grants) override;
  void send_borrow(ProcessId owner, ObjectId id, std::uint64_t token) override;
  void send_value_request(ProcessId owner, ObjectId id) override;
  void send_value(ProcessId reader, std::uint64_t token, ObjectEntry& entry) override;
  void dependency_ready(PendingCall& call, ObjectEntry& entry) override;
  void run_callback(std::function<void()> callback) override;
  void producer_unwanted(PendingCall& call, ObjectEntry& entry) override;
  void arrival_confirmed(std::uint64_t arrival) override;

  // ---- incoming frames
  void on_value_request(const net::FrameHeader& header, ByteView payload);
  void on_value(const net::FrameHeader& header, ByteView payload);

 private:
  detail::ObjectPtr object(ObjectId id, ProcessId source, std::uint64_t arrival);
  detail::HandlePtr handle(const wire::HandleDesc& desc, std::uint64_t arrival);
  void expect(std::uint64_t arrival);
  void fetch(BufferEntry& entry, int attempt);
  void fetched(BufferEntry& entry);

  Core& core_;
  ProcessId reading_from_;  // the source of the frame that is read, for refs that need no hold
  std::uint64_t last_hold_ = 0, last_arrival_ = 0;
  boost::unordered_flat_map<std::uint64_t, Outgoing> holds_;
  boost::unordered_flat_map<std::uint64_t, Arrival> arrivals_;
};

}  // namespace troupe::worker
