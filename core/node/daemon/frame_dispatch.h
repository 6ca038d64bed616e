// FrameDispatch: frames that are for the daemon itself, from local processes, other daemons and the head, go to the
// part that handles them. It decides nothing but who may send what
// (frame_access.h).
//
// Thread rule: the loop's thread.
//
// Invariants
//   FD-1  A request is answered: by its part, or here with an error when it is unknown or does not decode.
#pragma once
#include <functional>
#include <string>

#include "core/node/base/messenger.h"
#include "core/node/base/process_table.h"
#include "core/node/daemon/workers/actor_starts.h"
#include "core/node/daemon/deaths/deaths.h"
#include "core/node/daemon/workers/forwarded_leases.h"
#include "core/node/daemon/workers/job_cleanup.h"
#include "core/node/daemon/base/jobs.h"
#include "core/node/daemon/workers/leases.h"
#include "core/node/daemon/workers/light_hosts.h"
#include "core/node/daemon/peers/links.h"
#include "core/node/daemon/mail/mail.h"
#include "core/node/daemon/peers/membership.h"
#include "core/node/daemon/deaths/process_ends.h"
#include "core/node/daemon/peers/rank_sockets.h"
#include "core/node/daemon/admission/ring_pairs.h"
#include "core/node/daemon/workers/state_queries.h"
#include "core/node/logs/job_output.h"
#include "core/node/store/keeper.h"
#include "core/node/store/store_service.h"

namespace troupe::node {

class FrameDispatch {
 public:
  struct Parts {
    Loop& loop;
    ProcessTable& table;
    DaemonLinks& links;
    Mail& mail;
    Jobs& jobs;
    Leases& leases;
    ForwardedLeases& forwarded;
    StoreService& store;
    Keeper& keeper;
    LightHosts& light_hosts;
    ActorStarts& starts;
    ProcessEnds& ends;
    Deaths& deaths;
    JobCleanup& cleanup;
    RingPairs& pairs;
    RankSockets& ranks;
    StateQueries& queries;
    JobOutput& output;
    Membership& membership;
  };
  FrameDispatch(Parts parts, std::string node_id, std::function<void(const std::string& why)> stop)
      : parts_(parts), node_id_(std::move(node_id)), stop_(std::move(stop)) {}

  /// A frame from a ring of this node (from.node is this node) or from a link (from: {node, 0}). Forwarded when it is
  /// for others.
  void on_frame(ProcessId from, const net::FrameHeader& header, ByteView payload);

 private:
  void refuse(const net::FrameHeader& header);
  void handle(const net::FrameHeader& header, ByteView payload);
  void handle_request(const net::FrameHeader& header, ByteView payload);
  void handle_notice(const net::FrameHeader& header, ByteView payload);
  bool handle_store_notice(const net::FrameHeader& header, ByteView payload);
  bool handle_lease_notice(const net::FrameHeader& header, ByteView payload);
  bool handle_head_notice(const net::FrameHeader& header, ByteView payload);
  bool handle_process_notice(const net::FrameHeader& header, ByteView payload);
  void read_actor_exit(const net::FrameHeader& header, ByteView payload);
  void keep_what_is_named(const net::FrameHeader& header, ByteView payload);
  void kill_request(const net::FrameHeader& request, const wire::KillProcess& wanted);
  void kill_actor(const wire::KillProcess& wanted);
  template <class M> void with(const net::FrameHeader& header, ByteView payload, const std::function<void(M&)>& then);

  Parts parts_;
  const std::string node_id_;
  const std::function<void(const std::string&)> stop_;
};

}  // namespace troupe::node
