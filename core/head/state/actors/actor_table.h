// The actors that are not dead, by id, and by the process that runs them.
//
// Pure and of one thread. Records stay where they are until remove().
//
// Invariants
//   ATB-1  hosted_by(process) lists exactly the records whose `process` it is, in the order in which they came there.
//   ATB-2  What is listed for a decision is in the order of ids: the order of a hash table is no order for a replay.
//   ATB-3  held() is the sum of what the records with a `node` asked for, by that node.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/head/state/actors/actor_record.h"

namespace troupe::head {

class ActorTable {
 public:
  /// The id is not in the table.
  ActorRecord& add(wire::ActorSpec spec);
  ActorRecord* find(ActorId id);
  const ActorRecord* find(ActorId id) const;
  /// This very life of it.
  ActorRecord* find(ActorId id, std::int32_t restarts);
  /// It leaves its process, too.
  std::unique_ptr<ActorRecord> remove(ActorId id);
  std::size_t size() const { return actors_.size(); }

  /// It runs in this process from now on. A pid of 0 is not known yet.
  void host(ActorRecord& actor, ProcessId process, std::int32_t pid);
  /// It has no process and has this place from now on, which is not 0.
  void place(ActorRecord& actor, std::uint32_t node);
  /// It has no process and no place any more.
  void leave(ActorRecord& actor);
  const std::vector<ActorId>& hosted_by(ProcessId process) const;
  /// Processes of this node that host any.
  std::vector<ProcessId> hosts_on(std::uint32_t node) const;

  /// Ascending.
  std::vector<ActorId> all() const;
  std::vector<ActorId> of_job(JobId job) const;
  /// Any of a job: quicker than all of them.
  std::optional<ActorId> any_of(JobId job) const;
  /// ATB-3
  const std::map<std::uint32_t, sched::ResourceSet>& held() const { return held_; }
  /// Those that were placed there and have not started.
  std::vector<ActorId> starting_on(std::uint32_t node) const;

 private:
  void unlist(const ActorRecord& actor);
  template <class Keep> std::vector<ActorId> those(Keep&& keep) const;

  std::unordered_map<ActorId, std::unique_ptr<ActorRecord>, IdHash> actors_;
  std::unordered_map<ProcessId, std::vector<ActorId>, IdHash> hosted_;
  std::map<std::uint32_t, sched::ResourceSet> held_;  // no empty ones
};

}  // namespace troupe::head
