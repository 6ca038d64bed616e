// Deaths: what is done when a process of this node is surely dead (ProcessEnds says when), and when others are told
// dead.
//
//   dead --last messages delivered--> its ProcessDied is told to local processes, linked nodes, the head
//        --drained by its peers (DeathAcks)--> the store forgets it
//
// Thread rule: the loop's thread.
//
// Invariants
//   DA-1  A process is declared dead only when it is surely dead; its last messages are delivered before its
//         ProcessDied leaves.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/net/endpoint/endpoint.h"
#include "core/node/base/loop.h"
#include "core/node/base/messenger.h"
#include "core/node/base/process_table.h"
#include "core/node/daemon/deaths/death_acks.h"
#include "core/node/daemon/deaths/oom_kills.h"
#include "core/node/daemon/deaths/process_ends.h"
#include "core/node/daemon/deaths/stray_sweep.h"
#include "core/node/logs/log_pump.h"
#include "core/node/store/store_service.h"

namespace troupe::node {

class Deaths {
 public:
  struct Events {
    /// It is still in the table. True when an actor's construction waited for it, which was told to the head.
    std::function<bool(NodeProcess&)> before;
    /// Its last messages were taken; nobody was told yet.
    std::function<void(const NodeProcess&, const wire::ProcessDied&)> drained;
    /// It is out of the table and everyone was told. `for_actor`: what `before` said.
    std::function<void(const NodeProcess& gone, const wire::ProcessDied&, bool for_actor)> after;
    /// requests to it, and to processes of other nodes that died, end now
    std::function<void(ProcessId)> lost;
    std::function<void(int workers)> left_behind;     ///< local mode: threads that cannot be killed run on
    std::function<std::vector<std::uint32_t>()> linked;  ///< nodes to tell
  };
  struct Parts {
    Loop& loop;
    ProcessTable& table;
    Messenger& messenger;
    net::Endpoint& endpoint;
    net::Handler& handler;  ///< takes the last messages of the dead
    StoreService& store;
    LogPumps& logs;
    StraySweep& strays;
  };
  Deaths(Parts parts, WorkerHome home, std::string node_id, Events events);

  void finish(ProcessId id);
  void acked(ProcessId dead, ProcessId by);
  /// The threads of a worker are over that had to be declared dead before.
  void ended_late(ProcessId dead);
  /// A process of another node is dead, as that node's daemon says. False: that is known, or not for others to say.
  bool on_remote(const wire::ProcessDied& death);
  /// To every process of this node.
  template <class M>
  void tell_processes(wire::Method method, const M& message) {
    tell_processes(method, wire::encode_message(message));
  }

 private:
  void tell_processes(wire::Method method, const Messenger::Bytes& bytes);
  void tell_everyone(const wire::ProcessDied& death);
  wire::ProcessDied describe(NodeProcess& process);
  bool may_still_write(const NodeProcess& process) const;
  void wait_for_end(ProcessId dead, UniqueFd pidfd);
  void forget(ProcessId dead);

  Parts parts_;
  const WorkerHome home_;
  const std::string node_id_;
  const Events events_;
  DeathAcks acks_;
  std::map<ProcessId, UniqueFd> still_ending_;  ///< pidfds of those that the kernel has not let go yet
  OomKills oom_kills_;
};

}  // namespace troupe::node
