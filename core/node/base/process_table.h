// ProcessTable: the processes of this node, living and lately dead.
//
//   kStarting --Hello (Welcome sent)--> kAlive --socket closed, killed, pidfd--> kDying --surely dead, drained--> gone
//       `------------------ fork failed, died before Hello ------------------------------^
//
// A process is in the table from the moment its serial is given until its death is wholly handled; then its ProcessDied
// is kept (the last kDeathsKept) for those who ask later.
//
// Thread rule: the loop's thread.
//
// Invariants
//   PT-1  Serials ascend from 1 and are never given twice.
//   PT-2  An id is in the table, or in the deaths, or too old, or was never given.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/node/base/packet_channel.h"
#include "core/node/base/call_ledger.h"
#include "core/wire/messages.h"
#include "scheduler/lease_queue.h"

namespace troupe::node {

inline constexpr std::size_t kDeathsKept = 10'000;

struct NodeProcess {
  enum class State { kStarting, kAlive, kDying };
  ProcessId id;
  wire::Role role = wire::Role::kWorker;
  State state = State::kStarting;
  JobId job = 0;
  int pid = 0;
  std::unique_ptr<PacketChannel> channel;
  UniqueFd pidfd, doorbell, event;               ///< doorbell and event: for offers to its peers
  std::set<ProcessId> paired;                    ///< local peers that have a pair with it
  CallLedger calls;                              ///< what we passed on to it
  sched::WorkerKind kind;
  std::uint32_t launcher = 0;                    ///< the launcher that forked it
  std::optional<std::pair<ActorId, std::int32_t>> actor;  ///< dedicated to it
  bool light_host = false;
  std::string title;                             ///< for log prefixes: class name of its actor
  // What is known of its end so far.
  bool expected = false, killed_by_us = false;
  DeathCause cause = DeathCause::kCrashed;
  std::string reason;
  std::optional<int> wait_status;
};

class ProcessTable {
 public:
  explicit ProcessTable(std::uint32_t node) : node_(node) {}
  std::uint32_t node() const { return node_; }

  NodeProcess& add(wire::Role role, JobId job);
  NodeProcess* find(ProcessId id);
  NodeProcess* find_alive(ProcessId id);
  NodeProcess* find_pid(int pid);
  std::unique_ptr<NodeProcess> remove(ProcessId id);
  std::map<std::uint32_t, std::unique_ptr<NodeProcess>>& all() { return processes_; }
  std::size_t count(JobId job) const;
  /// Pairs of rings between processes of the node.
  std::size_t pairs() const;

  /// Also deaths on other nodes, as far as we were told.
  void remember(wire::ProcessDied death);
  const wire::ProcessDied* death(ProcessId id) const;

 private:
  std::uint32_t node_;
  std::uint32_t next_serial_ = 1;
  std::map<std::uint32_t, std::unique_ptr<NodeProcess>> processes_;
  std::unordered_map<ProcessId, wire::ProcessDied, IdHash> deaths_;
  std::deque<ProcessId> death_order_;
};

/// "killed by SIGKILL (9)", "exited with code 3", "ended".
std::string describe_wait_status(int wait_status);

}  // namespace troupe::node
