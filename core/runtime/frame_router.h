// FrameRouter: brings frames to their destination, whichever way leads there.
//
//   this process      a queue that the sending thread empties when it lets go of the lock
//   same node         the ring shared with the peer; frames wait here while the daemon connects the two
//   anybody else      the ring to the daemon, which forwards
//
// Invariants
//   CR-1  Frames to one destination leave in the order of send, also those that waited for the connection.
//   CR-2  Frames for a process of this node that is known to be dead are dropped here, those for one of another node by
//         the daemon that finds it dead; whoever waits learns of the death by its notice.
//   CR-3  A frame waits only while the daemon is asked for a ring: whatever it answers, the frame leaves or its
//         destination is known to be dead.
//   CR-4  A frame by way of the daemon waits here, in the queue of its destination, while that process or all of its
//         node takes nothing (wire::Congestion), and while more than kOutboxMax of what was sent before waits for the
//         daemon itself. So what the daemon still reads of a sender that it told to wait is bounded, and frames for
//         others pass. Frames for the daemon itself (requests, leases, what it must know of deaths) never wait here.
//   CR-5  Counts for the owner of an object (held_frames.h) wait here too while more than kOutboxMax waits for the ring
//         to it, and are summed up meanwhile (HLF-2). They may be passed by other frames, never pass one.
//   CR-6  A frame with more than net::kPayloadMax for another process is refused by send, which says so; nothing of it
//         leaves.
//   CR-7  Of a process that died nothing is kept but that it did, and that of the last kDeadKept alone: a process that
//         lives for long outlives any number of others.
//   CR-8  A call to a process that is known to be dead has no number that the process may have noted as begun: who asks
//         what it had begun may do so after the call was sent.
// Thread rule: lock held, but for notice_daemon.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <deque>
#include <vector>

#include "core/base/ids.h"
#include "core/base/recent_set.h"
#include "core/net/base/frame.h"
#include "core/net/endpoint/endpoint.h"
#include "core/wire/codec.h"
#include "core/wire/messages.h"
#include "core/runtime/core_lock.h"
#include "core/runtime/frames.h"
#include "core/runtime/held_frames.h"
#include "core/runtime/surroundings.h"

namespace troupe::worker {

class Requests;
class ServiceQueue;

class FrameRouter {
 public:
  /// `handler` gets the frames that this process sends to itself.
  FrameRouter(ProcessId self, StateMutex& mutex, const Surroundings& surroundings, ServiceQueue& timers,
              Requests& requests, net::Handler& handler)
      : self_(self),
        mutex_(mutex),
        clock_(surroundings.clock),
        transport_(surroundings.transport),
        timers_(timers),
        requests_(requests),
        handler_(handler) {}

  /// What may wait for a ring in the transport, behind which nobody can pass.
  static constexpr std::size_t kOutboxMax = std::size_t{2} << 20;
  /// Between two looks whether a ring has taken it.
  static constexpr Duration kLook = std::chrono::milliseconds(1);
  /// CR-7. Ten times as many as a daemon remembers (node::kDeathsKept), which answers for those before them.
  static constexpr std::size_t kDeadKept = 100'000;
  /// CR-8. Above all that any process has noted.
  static constexpr std::uint64_t kNeverBegins = ~std::uint64_t{0};

  /// Sends a frame; source is filled in. False: it is refused, and logged (CR-6).
  bool send(ProcessId destination, net::FrameHeader header, ByteView payload = {});
  void control(ProcessId destination, Control kind, std::uint64_t arg1 = 0, std::uint64_t arg2 = 0,
               ByteView payload = {});
  template <class M> bool notice(ProcessId destination, wire::Method method, const M& message) {
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kNotice);
    header.arg0 = std::uint64_t(method);
    return send(destination, header, wire::encode_message(message));
  }
  /// Tells the owner of an object a count (CR-5). `grants`: of a release.
  void count(Count what, ObjectId id, std::uint64_t grants = 0);
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
  /// The daemon says that a process, or all of a node ({node, 0}), takes nothing, or does again.
  void congestion(const wire::Congestion& news);
  void process_died(ProcessId peer) {
    dead_.insert(peer);
    clogged_.erase(peer);
    held_.drop(peer);
    waiting_.erase(peer);
    by_daemon_.erase(peer);
    call_numbers_.erase(peer);
  }
  void node_died(std::uint32_t node) {
    if (node == 0) return;
    dead_nodes_.insert(node);
    boost::unordered::erase_if(clogged_, [node](ProcessId one) { return one.node == node; });
    boost::unordered::erase_if(call_numbers_, [node](const auto& one) { return one.first.node == node; });
    held_.drop_node(node);
  }
  bool is_dead(ProcessId peer) const {
    return dead_.contains(peer) || (!dead_nodes_.empty() && dead_nodes_.contains(peer.node));
  }
  /// The ring that frames to this destination go through: the peer itself or the daemon.
  ProcessId route(ProcessId destination) const;
  /// Bytes for this destination that wait in this process: here, and for the ring to it when there is one.
  std::size_t backlog(ProcessId destination) const;
  /// Do frames wait here, for their turn (CR-4, CR-5) or for a ring (CR-3)?
  bool any_held() const { return !held_.empty() || !waiting_.empty(); }
  /// How many processes it keeps anything of (CR-7): those that it numbered calls for, has no ring to, and the dead.
  std::size_t known() const { return call_numbers_.size() + by_daemon_.size() + dead_.size(); }
  /// Number of the next call frame to this destination, from 1; to a dead one kNeverBegins (CR-8).
  std::uint64_t next_call_number(ProcessId destination) {
    return is_dead(destination) ? kNeverBegins : ++call_numbers_[destination];
  }
  /// Memory to build a payload in; valid until the next send.
  std::vector<std::byte>& scratch() { return scratch_; }

 private:
  struct Queued { net::FrameHeader header; std::vector<std::byte> payload; };

  void deliver_local();
  void send_by_daemon(ProcessId destination, const net::FrameHeader& header, ByteView payload);
  bool is_clogged(ProcessId destination) const;
  bool may_go(ProcessId destination) const;
  void let_go();
  void look_soon();
  void release_waiting(ProcessId peer, ProcessId ring);
  void notice_daemon_bytes(wire::Method method, const std::vector<std::byte>& payload);

  const ProcessId self_;
  const ProcessId daemon_ = daemon_of(self_.node);
  StateMutex& mutex_;
  Clock& clock_;
  Transport& transport_;
  ServiceQueue& timers_;
  Requests& requests_;
  net::Handler& handler_;
  std::deque<Queued> local_;
  bool delivering_ = false;  // a thread is emptying local_
  boost::unordered_flat_map<ProcessId, std::vector<Queued>, IdHash> waiting_;
  HeldFrames held_;                                             // CR-4, CR-5
  boost::unordered_flat_set<ProcessId, IdHash> clogged_;        // CR-4; {node, 0}: all of the node
  bool looking_ = false;                                        // a timer of kLook runs
  boost::unordered_flat_map<ProcessId, std::uint64_t, IdHash> call_numbers_;
  boost::unordered_flat_set<ProcessId, IdHash> by_daemon_;
  RecentSet<ProcessId, IdHash> dead_{kDeadKept};                // CR-7
  boost::unordered_flat_set<std::uint32_t> dead_nodes_;
  std::vector<std::byte> scratch_;
};

}  // namespace troupe::worker
