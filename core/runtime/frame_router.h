// FrameRouter: brings frames to their destination, whichever way leads there.
//
//   this process      a queue that the sending thread empties when it lets go of the lock
//   same node         the ring shared with the peer; frames wait here while the daemon connects the two
//   anybody else      the ring to the daemon, which forwards
//
// Invariants
//   CR-1  Frames to one destination leave in the order of send, also those that waited for the connection.
//   CR-2  Frames for a process that is known to be dead are dropped; whoever waits learns of the death by its notice.
//   CR-3  A frame waits only while the daemon is asked for a ring: whatever it answers, the frame leaves or its
//         destination is known to be dead.
//   CR-4  Frames by way of the daemon for a process that takes nothing (wire::Congestion) wait here, in order, until
//         the daemon says that it does, or it is dead; frames for others pass them.
// Thread rule: lock held, but for notice_daemon.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <deque>
#include <vector>

#include "core/base/ids.h"
#include "core/net/base/frame.h"
#include "core/net/endpoint/endpoint.h"
#include "core/wire/codec.h"
#include "core/wire/messages.h"
#include "core/runtime/core_lock.h"
#include "core/runtime/frames.h"
#include "core/runtime/surroundings.h"

namespace troupe::worker {

class Requests;

class FrameRouter {
 public:
  /// `handler` gets the frames that this process sends to itself.
  FrameRouter(ProcessId self, StateMutex& mutex, Transport& transport, Requests& requests, net::Handler& handler)
      : self_(self), mutex_(mutex), transport_(transport), requests_(requests), handler_(handler) {}

  /// Sends a frame; source is filled in.
  void send(ProcessId destination, net::FrameHeader header, ByteView payload = {});
  void control(ProcessId destination, Control kind, std::uint64_t arg1 = 0, std::uint64_t arg2 = 0,
               ByteView payload = {});
  template <class M> void notice(ProcessId destination, wire::Method method, const M& message) {
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kNotice);
    header.arg0 = std::uint64_t(method);
    send(destination, header, wire::encode_message(message));
  }
  /// Only for the daemon's ring: needs no lock, keeps no order with send's frames of other threads.
  template <class M> void notice_daemon(wire::Method method, const M& message) {
    notice_daemon_bytes(method, wire::encode_message(message));
  }

  /// The daemon connected us: frames that waited go out.
  void connected(ProcessId peer);
  /// There is no ring for us two (wire::ConnectReply): frames go by the daemon from now on, also should a pair be made
  /// later (CR-1).
  void by_daemon(ProcessId peer);
  /// What a peer of this node sends by the daemon is answered that way, at once: asking for a ring first could outlast
  /// this process.
  void came_by_daemon(ProcessId source) {
    if (source.node == self_.node && source.serial != 0 && !by_daemon_.contains(source) &&
        !transport_.attached(source) && !is_dead(source))
      by_daemon(source);
  }
  /// The daemon says that a process takes nothing, or does again.
  void congestion(const wire::Congestion& news);
  void process_died(ProcessId peer) {
    dead_.insert(peer);
    clogged_.erase(peer);
    waiting_.erase(peer);
    by_daemon_.erase(peer);
  }
  void node_died(std::uint32_t node) {
    if (node != 0) dead_nodes_.insert(node);
    boost::unordered::erase_if(clogged_, [node](const auto& one) { return one.first.node == node; });
  }
  bool is_dead(ProcessId peer) const {
    return dead_.contains(peer) || (!dead_nodes_.empty() && dead_nodes_.contains(peer.node));
  }
  /// The ring that frames to this destination go through: the peer itself or the daemon.
  ProcessId route(ProcessId destination) const;
  /// Number of the next call frame to this destination, from 1.
  std::uint64_t next_call_number(ProcessId destination) { return ++call_numbers_[destination]; }
  /// Memory to build a payload in; valid until the next send.
  std::vector<std::byte>& scratch() { return scratch_; }

 private:
  struct Queued { net::FrameHeader header; std::vector<std::byte> payload; };

  void deliver_local();
  void release_waiting(ProcessId peer, ProcessId ring);
  void notice_daemon_bytes(wire::Method method, const std::vector<std::byte>& payload);

  const ProcessId self_;
  const ProcessId daemon_ = daemon_of(self_.node);
  StateMutex& mutex_;
  Transport& transport_;
  Requests& requests_;
  net::Handler& handler_;
  std::deque<Queued> local_;
  bool delivering_ = false;  // a thread is emptying local_
  boost::unordered_flat_map<ProcessId, std::vector<Queued>, IdHash> waiting_;
  boost::unordered_flat_map<ProcessId, std::vector<Queued>, IdHash> clogged_;  // CR-4
  boost::unordered_flat_map<ProcessId, std::uint64_t, IdHash> call_numbers_;
  boost::unordered_flat_set<ProcessId, IdHash> dead_, by_daemon_;
  boost::unordered_flat_set<std::uint32_t> dead_nodes_;
  std::vector<std::byte> scratch_;
};

}  // namespace troupe::worker
