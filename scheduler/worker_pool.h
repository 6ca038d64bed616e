// WorkerPool: the worker processes of this node that run tasks, by what makes them interchangeable. Pure.
//
//   starting --ready--> idle <--lease, lease_ended--> leased <--task_waits--> blocked
//                        |                              `--end--> ending: idle no more
//                        `--take (an actor's, or retired)--> not of the pool;   died: from everywhere
//
// Thread rule: one thread at a time. Time is given with each event.
//
// Invariants
//   WPL-1  Idle is who has no lease and is not ending; the one that was used last is leased first, and one that was
//          never used only when there is no other: the stock for actors is not eaten by tasks (WPL-5).
//   WPL-2  Blocked is who has a lease whose task waits; blocked() counts them.
//   WPL-3  As many start as were asked for by to_start and have not ended in ready or not_coming.
//   WPL-4  A dead worker is neither leased nor taken: died takes it off the idle ones before anything else.
//   WPL-5  Who had a lease is taken for no actor: what its tasks left there (objects that others hold, threads) would
//          go with the actor's process, when the actor ends.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <troupe/options.h>

#include "core/base/clock.h"
#include "core/base/ids.h"

namespace troupe::sched {

/// Which workers are interchangeable.
struct WorkerKind {
  JobId job = 0;
  std::map<std::string, std::string> env_vars;
  std::string working_dir;
  std::vector<int> gpu_ids;
  auto operator<=>(const WorkerKind&) const = default;
  bool plain() const { return env_vars.empty() && working_dir.empty() && gpu_ids.empty(); }
};
/// What a worker has done before it comes to the pool.
enum class WorkerPast : std::uint8_t { kNothing, kTasks };
WorkerKind worker_kind(JobId job, const RuntimeEnv& env, std::vector<int> gpu_ids = {});

class WorkerPool {
 public:
  // ---- starting
  /// How many more of this kind have to be started, so that `wanted` are starting; they count as starting.
  int to_start(const WorkerKind& kind, int wanted);
  void ready(ProcessId worker, std::int32_t pid, const WorkerKind& kind, TimePoint now,
             WorkerPast past = WorkerPast::kNothing);
  void not_coming(const WorkerKind& kind);
  /// Who starts for this job is not awaited any more.
  void job_ended(JobId job);

  // ---- leases
  /// An idle one of this kind. nullopt: none.
  std::optional<ProcessId> idle_of(const WorkerKind& kind) const;
  /// Of the blocked ones of this kind the one with the fewest leases, ending ones apart. nullopt: none.
  std::optional<ProcessId> blocked_of(const WorkerKind& kind) const;
  struct Leased { std::int32_t pid = 0; bool shared = false; };  ///< shared: it has other leases too
  /// The worker is of the pool.
  Leased lease(ProcessId worker, std::uint64_t lease_id);
  void lease_renewed(ProcessId worker, std::uint64_t lease_id, std::uint64_t renewed);
  /// The task of this lease waits, or goes on.
  void task_waits(ProcessId worker, std::uint64_t lease_id, bool waits);
  /// Without a further lease it is idle again, unless it is ending.
  void lease_ended(ProcessId worker, std::uint64_t lease_id, TimePoint now);
  /// It takes no lease any more. False: it is ending already, or not of the pool.
  bool end(ProcessId worker);

  // ---- leaving
  bool take(ProcessId worker);
  /// One for an actor (WPL-5).
  std::optional<ProcessId> take(const WorkerKind& kind);
  /// Its leases, which are still to be ended; then forget it.
  std::set<std::uint64_t> died(ProcessId worker);
  void forget(ProcessId worker) { workers_.erase(worker); }

  // ---- state
  bool contains(ProcessId worker) const { return workers_.contains(worker); }
  std::size_t idle_count(const WorkerKind& kind) const;
  /// Of these, those that an actor may have (WPL-5).
  std::size_t fresh_count(const WorkerKind& kind) const;
  /// Idle workers that have been idle since before `since`, beyond `keep` of their job's plain kind: so many that tasks
  /// have used, and so many for actors.
  std::vector<ProcessId> surplus(std::size_t keep, TimePoint since) const;
  int blocked() const { return blocked_; }
  /// "IDLE", "LEASED", "BLOCKED"; empty when it is not of the pool.
  std::string state(ProcessId worker) const;
  /// Checks the books: what is wrong, empty when all is well. `leases` are those that there are.
  std::string audit(const std::set<std::uint64_t>& leases) const;

 private:
  struct Worker {
    WorkerKind kind;
    std::int32_t pid = 0;
    std::set<std::uint64_t> leases, waiting;  ///< waiting: those of `leases` whose task waits
    WorkerPast past = WorkerPast::kNothing;
    bool blocked = false, idle = false, ending = false;
    TimePoint idle_since{};
  };
  void make_idle(ProcessId id, Worker& worker, TimePoint now);
  void unlist(ProcessId id, Worker& worker);
  void update_blocked(Worker& worker);

  std::unordered_map<ProcessId, Worker, IdHash> workers_;
  std::map<WorkerKind, std::deque<ProcessId>> idle_;  ///< most recently used at the back
  std::map<WorkerKind, std::size_t> fresh_;           ///< how many of the idle ones never had a lease
  std::map<WorkerKind, int> starting_;
  int blocked_ = 0;
};

}  // namespace troupe::sched
