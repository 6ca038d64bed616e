// Mail: how the daemon talks, as itself and as a post office. Frames go by ring to local processes, by link to other
// nodes and to the head; frames for others are forwarded unread. ML-3: messenger.h.
//
// Thread rule: the loop's thread.
//
// Invariants
//   ML-1  A frame for a dead process is answered: its source gets the death notice of what it wanted to reach (once for
//         each pair of processes in kToldFor: a burst is answered once, and who forgot it since hears it anew), and a
//         request also gets an error response. A link that is down is no death: its frames wait.
//   ML-2  A local process speaks only for itself: a frame with another source is dropped and logged.
//   ML-4  The daemon waits for nobody, and what it keeps for a process that takes nothing, or for a node that
//         acknowledges nothing, is bounded. Who sends to such a process or node is told, by way of its own daemon, and
//         keeps the frames for it (CR-4), so that its other frames go on; who goes on all the same is held: its ring is
//         not read meanwhile, so that its frames wait in its own memory.
//   ML-5  What the daemon says itself (deaths, answers, leases) is under no such bound: it is neither refused nor held,
//         and takes what the events take that it tells of. Only lines of logs are left out (is_clogged).
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/net/endpoint/endpoint.h"
#include "core/node/daemon/mail/congestion.h"
#include "core/node/daemon/mail/held_senders.h"
#include "core/node/base/loop.h"
#include "core/node/base/messenger.h"
#include "core/node/base/process_table.h"
#include "core/wire/codec.h"
#include "core/wire/messages.h"

namespace troupe::node {

/// The ways off this node. Node 0 is the head.
class LinkPort {
 public:
  virtual ~LinkPort() = default;
  /// It will arrive, once and in order, unless the head declares that node dead. False: that it has done.
  virtual bool send(std::uint32_t node, const net::FrameHeader& header, ByteView payload) = 0;
  /// So much waits for the node that those who can wait should; Mail::room() follows.
  virtual bool is_full(std::uint32_t node) const = 0;
  /// Nodes (not the head) that were ever talked to and live: whom deaths are told to.
  virtual std::vector<std::uint32_t> linked() const = 0;
};

class Mail final : public Messenger {
 public:
  /// ML-1. Long beside the way of a notice, short beside the time in which a process forgets a death (CR-7).
  static constexpr Duration kToldFor = std::chrono::seconds(10);

  Mail(Loop& loop, net::Endpoint& endpoint, ProcessTable& table, LinkPort& links)
      : loop_(loop), endpoint_(endpoint), table_(table), links_(links) {}

  // ---- as itself
  ProcessId self() const override { return daemon_of(table_.node()); }
  void send_notice(ProcessId to, wire::Method method, const Bytes& payload) override;
  void send_response(const net::FrameHeader& request, bool failed, const Bytes& payload) override;
  void send_request(ProcessId to, wire::Method method, const Bytes& payload, Duration timeout, Done done) override;

  // ---- as a post office
  /// A frame that came in. True when it is for the daemon itself (the caller handles it); else it was forwarded or
  /// refused.
  bool route(ProcessId from_ring, const net::FrameHeader& header, ByteView payload);
  bool deliver(const net::FrameHeader& header, ByteView payload);
  /// The node is dead, and no link was ever given these: whoever sent them is told that they were not executed, before
  /// it hears of the death. Node 0: there is another head.
  void never_sent(std::uint32_t node, const std::vector<net::FrameHeader>& frames);
  /// The links take frames for the node again. Also when it is dead, or has another head (0).
  void room(std::uint32_t node);
  /// Of a process of another node, as that node's daemon says.
  void congestion(const wire::Congestion& news);
  /// Too much waits for the process already: what can be left out should be.
  bool is_clogged(ProcessId process) const;
  void on_response(const net::FrameHeader& header, ByteView payload);
  void node_lost(std::uint32_t node);
  void process_lost(ProcessId process);

  std::uint64_t forwarded() const { return forwarded_; }

 private:
  struct Pending { ProcessId to; Done done; Loop::TimerId timer; };
  void finish(std::uint64_t token, Result<Bytes> result);
  void refuse(const net::FrameHeader& header);
  void hold_back(ProcessId from_ring, const net::FrameHeader& header);
  void tell_open(ProcessId process, const std::vector<ProcessId>& told);
  void look_at_clogged();
  void let_go(const HeldSenders::Senders& senders);

  Loop& loop_;
  net::Endpoint& endpoint_;
  ProcessTable& table_;
  LinkPort& links_;
  std::unordered_map<std::uint64_t, Pending> pending_;
  std::set<std::pair<ProcessId, ProcessId>> told_;
  HeldSenders held_;
  Congestion congestion_;      ///< of processes of this node
  Congestion far_congestion_;  ///< of others, as their daemons say; and of whole nodes ({node, 0}), as the links say
  std::uint64_t next_token_ = 1, forwarded_ = 0;
};

}  // namespace troupe::node
