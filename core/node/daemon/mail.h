// Mail: how the daemon talks, as itself and as a post office. Frames go by ring to local processes, by link to other nodes
// and to the head; frames for others are forwarded unread. ML-3: messenger.h.
//
// Thread rule: the loop's thread.
//
// Invariants
//   ML-1  A frame that cannot be delivered is answered: its source gets the death notice of what it wanted to reach (once for
//         each pair of processes), and a request also gets an error response. The head does not die while this daemon lives:
//         what cannot go to it now is said to be that, and nobody's death.
//   ML-2  A local process speaks only for itself: a frame with another source is dropped and logged.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/net/endpoint/endpoint.h"
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
  /// Queues or sends; dials when there is no link yet. False: that node is dead or was never known.
  virtual bool send(std::uint32_t node, const net::FrameHeader& header, ByteView payload) = 0;
  /// Nodes (not the head) with a link now: whom deaths are told to.
  virtual std::vector<std::uint32_t> linked() const = 0;
};

class Mail final : public Messenger {
 public:
  Mail(Loop& loop, net::Endpoint& endpoint, ProcessTable& table, LinkPort& links)
      : loop_(loop), endpoint_(endpoint), table_(table), links_(links) {}

  // ---- as itself
  ProcessId self() const override { return daemon_of(table_.node()); }
  void send_notice(ProcessId to, wire::Method method, const Bytes& payload) override;
  void send_response(const net::FrameHeader& request, bool failed, const Bytes& payload) override;
  void send_request(ProcessId to, wire::Method method, const Bytes& payload, Duration timeout, Done done) override;

  // ---- as a post office
  /// A frame that came in. True when it is for the daemon itself (the caller handles it); else it was forwarded or refused.
  bool route(ProcessId from_ring, const net::FrameHeader& header, ByteView payload);
  bool deliver(const net::FrameHeader& header, ByteView payload);
  /// ML-1, for frames that the links could not bring to their node.
  void undeliverable(const net::FrameHeader& header) { refuse(header); }
  void on_response(const net::FrameHeader& header, ByteView payload);
  void node_lost(std::uint32_t node);
  void process_lost(ProcessId process);

  std::uint64_t forwarded() const { return forwarded_; }

 private:
  struct Pending { ProcessId to; Done done; Loop::TimerId timer; };
  void finish(std::uint64_t token, Result<Bytes> result);
  void refuse(const net::FrameHeader& header);

  Loop& loop_;
  net::Endpoint& endpoint_;
  ProcessTable& table_;
  LinkPort& links_;
  std::unordered_map<std::uint64_t, Pending> pending_;
  std::set<std::pair<ProcessId, ProcessId>> told_;
  std::uint64_t next_token_ = 1, forwarded_ = 0;
};

}  // namespace troupe::node
