// LeaseQueue: who may use this node's resources, and in which worker process. Pure: events in, effects out.
//
// A lease is the right to run tasks of one class in one worker. A requester says how many leases it wants besides those
// it holds (absolute, so that repeating is harmless). Actors hold resources of the same account while they live.
//
//   one lease   waiting --fits here--> reserved --a worker is there--> granted --returned, or a death--> gone
//                  |  ^  `--policy names another node--> delegated --granted there--> gone
//                  |  `--------- given back, node lost ------'
//                  `--can never run--> refused (hard constraint); larger than any node: waits, with a warning
//   worker      starting --worker_ready--> idle <--> leased <--> blocked;  an actor's worker leaves by take_worker
//
// Order: in turns (turns.h), FIFO within one class. A class that does not fit holds back nobody else, but for the times
// of LQ-10 (keeper.h). Actors come before leases: what an actor that waits needs is kept for it, for actor_wait, as
// leases end (actor_admission.h).
//
// Thread rule: one thread at a time. Time is given with each event.
//
// Invariants
//   LQ-1  total = available + (what reservations, leases and actors hold), where a lease whose task waits holds no
//         CPUs.
//         Available CPUs go below zero only by a worker that wakes; nothing that needs CPUs is granted until they are
//         back.
//   LQ-2  A worker has at most one lease, unless max_suspended_workers are blocked already: then a blocked one gets
//         more, and its tasks run beside each other. Blocked is a worker with a lease whose task waits.
//   LQ-3  What a dead process wanted, held or ran in is released exactly once.
//   LQ-4  Only the requester's own daemon passes a lease on: the other node grants it or gives it back within
//         give_back_after, or claim_wait (LQ-11). One that it refuses is over at the requester's own daemon, too.
//   LQ-5  A request larger than any node is warned about once, warn_after after it came.
//   LQ-6  A guess about another node (what was sent there is taken off its view) is forgotten after guess_life, should
//         the node's report not have replaced it: what came and went between two reports is never reported.
//   LQ-7  An actor that waits keeps leases and later actors from what it needs for actor_wait, unless other actors have
//         that; where only tasks have it, it waits on for actor_wait_for_tasks, and keeps nothing back.
//   LQ-8  A lease that had lent its CPUs is renewed, for a further task, only when they are back; else it ends. It also
//         ends when an actor waits, or a request that is not its own, for something that it has: it is their turn.
//   LQ-9  A hard affinity to a node that the view does not name is refused, and a soft one passes it over, after
//         unknown_node_wait: whoever asks may have heard of a node before this one's view has. Once for each such node
//         (SUN-1).
//   LQ-10  A request that needs more than the end of any one lease frees, and waits longer than look_every, has what it
//          needs kept for it as leases end: for look_every, then not for as long, and so on with times that double up
//          to keep_most. One at a time; while it rests, it is another's turn. Tasks that last longer may keep it out.
//   LQ-11  Turns are taken between the requests of all nodes: one for which other nodes would have room but for their
//          tasks is passed on to wait there, one lease at a time, after look_every without progress: for claim_wait,
//          and the next time for twice as long, up to keep_most. It is taken back when its own node has room.
//   LQ-12  A request takes resources for one lease more than there are idle workers when others wait, and one that got
//          no worker for them within worker_wait gives them back, until one comes: one whose workers start slowly, or
//          never, holds nobody up for longer.
//   LQ-13  A request outlives its job where its requester does, as the process of an actor that the job leaves behind.
//          What another node passed on is given back where it is forgotten.
//   LQ-14  What is free of GPUs is what one request can have of them (LRS-3), here and in what other nodes are told:
//          nothing waits at pieces.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/wire/messages.h"
#include "scheduler/actor_admission.h"
#include "scheduler/claim.h"
#include "scheduler/cluster_view.h"
#include "scheduler/keeper.h"
#include "scheduler/local_resources.h"
#include "scheduler/policy.h"
#include "scheduler/turns.h"
#include "scheduler/unknown_nodes.h"
#include "scheduler/worker_pool.h"

namespace troupe::sched {

struct LeaseQueueOptions {
  std::uint32_t node = 1;
  std::string node_id;
  ResourceSet total;
  std::map<std::string, std::string> labels;
  int max_suspended_workers = 512;
  Duration warn_after = std::chrono::seconds(2);
  Duration unknown_node_wait = std::chrono::seconds(1);
  Duration give_back_after = std::chrono::milliseconds(100);
  Duration guess_life = std::chrono::milliseconds(300);
  Duration actor_wait = std::chrono::milliseconds(500);  ///< then the head may try elsewhere ...
  Duration actor_wait_for_tasks = std::chrono::seconds(2);  ///< ... and then where only tasks are in its way (LQ-7)
  Duration look_every = std::chrono::milliseconds(500);  ///< at requests that make no progress (LQ-10, LQ-11)
  Duration keep_most = std::chrono::seconds(8);
  Duration claim_wait = std::chrono::seconds(1);
  Duration worker_wait = std::chrono::seconds(1);
};

// ---- effects
struct Granted { ProcessId requester; wire::LeaseGranted lease; };
struct Refused { ProcessId requester; wire::LeaseRefused refusal; };
/// Start `count` more workers of this kind; each ends in worker_ready or worker_failed.
struct NeedWorkers { WorkerKind kind; int count = 1; };
/// To the daemon of `node`: kForwardLease; wanted.wanted is what we want of it in all.
struct Forward { std::uint32_t node = 0; wire::LeaseWanted wanted; };
/// To the daemon of the requester's node: kLeaseCounted.
struct CountAtOrigin { std::uint32_t node = 0; wire::LeaseCounted counted; };
struct Warn { JobId job = 0; std::string text; };
/// The process that had leased this worker is dead: end it, nobody waits for what it does.
struct EndWorker { ProcessId worker; std::string reason; };
using LeaseEffect = std::variant<Granted, Refused, NeedWorkers, Forward, CountAtOrigin, Warn, EndWorker, ActorAdmitted,
                                 ActorNotAdmitted>;

class LeaseQueue {
 public:
  explicit LeaseQueue(LeaseQueueOptions options);
  LeaseQueue(const LeaseQueue&) = delete;  // its parts point at its resources
  LeaseQueue& operator=(const LeaseQueue&) = delete;

  // ---- requests
  void wanted(const wire::LeaseWanted& wanted, TimePoint now);
  void returned(std::uint64_t lease_id, TimePoint now);
  /// A task of this lease had lent its CPUs and is done, or it has lasted its term. Its new number, or 0: it has ended
  /// (LQ-8).
  std::uint64_t renew(std::uint64_t lease_id, ProcessId requester, TimePoint now);
  void counted(const wire::LeaseCounted& counted, TimePoint now);

  // ---- workers
  void worker_ready(ProcessId worker, std::int32_t pid, const WorkerKind& kind, TimePoint now,
                    WorkerPast past = WorkerPast::kNothing);
  /// One that was asked for will not come. With an error the request that waits longest for that kind is refused.
  void worker_failed(const WorkerKind& kind, std::optional<ErrorRecord> error, TimePoint now);
  /// The task of this lease waits, or goes on.
  void worker_blocked(ProcessId worker, std::uint64_t lease_id, bool blocked, TimePoint now);
  /// Takes an idle worker out of the pool, for an actor (WPL-5) or to retire it. nullopt: there is none.
  std::optional<ProcessId> take_worker(const WorkerKind& kind) { return workers_.take(kind); }
  bool take_worker(ProcessId worker) { return workers_.take(worker); }
  const WorkerPool& workers() const { return workers_; }

  // ---- actors
  /// Ends in ActorAdmitted or ActorNotAdmitted, should it not be gone before (actor_admission.h).
  void admit_actor(ActorId actor, std::int32_t restarts, const ResourceSet& need, TimePoint now);
  /// Gives its resources back, or forgets that it waits. Nothing happens when it is unknown.
  void actor_gone(ActorId actor, std::int32_t restarts, TimePoint now);

  // ---- deaths
  void process_died(ProcessId process, TimePoint now);
  void node_died(std::uint32_t node, TimePoint now);
  /// `kept`: processes of the job that live on (LQ-13).
  void job_ended(JobId job, const std::set<ProcessId>& kept, TimePoint now);

  // ---- view and time
  void view_delta(const wire::ClusterView& delta, TimePoint now);
  const ClusterView& view() const { return view_; }
  void tick(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  std::vector<LeaseEffect> take_effects() { return std::exchange(effects_, {}); }

  // ---- state
  const LocalResources& resources() const { return resources_; }
  /// What one request can have, less what is kept for actors and a request that wait; below zero only as available()
  /// is (LRS-2).
  ResourceSet room() const;
  std::uint64_t pending() const;  ///< leases and actors that wait here
  /// Checks the books (tests, simulator): what is wrong, empty when all is well.
  std::string audit() const;

 private:
  using Key = std::uint64_t;
  static constexpr Key kNobody = 0;
  struct Waiting {
    wire::LeaseWanted wanted;                          ///< wanted.wanted: how many wait here
    ResourceSet need;
    std::uint32_t reserved = 0;
    std::map<std::uint32_t, std::uint32_t> delegated;  ///< node -> how many
    std::set<std::uint32_t> stale;                     ///< nodes to be told a new count
    TimePoint since{};                                 ///< when the first of those that wait began to
    std::string reason;
    bool warned = false;
    std::optional<TimePoint> awaits_node_until = {};   ///< LQ-9
    std::uint64_t served = 0;                          ///< places_ when it had, or lost, its last one
    bool without_workers = false;                      ///< LQ-12: until one comes, or is known not to
    Claim claim = {};                                  ///< LQ-11: the node of an open one is in `delegated`
  };
  struct Reservation { Key request = 0; Allocation allocation; WorkerKind kind; TimePoint since{}; };
  struct Lease {
    ProcessId requester, worker;
    std::uint64_t request_id = 0;
    Allocation allocation;
    bool cpus_lent = false;
  };

  bool is_origin(const Waiting& request) const { return request.wanted.requester.node == options_.node; }
  /// Here, or elsewhere for as long as it has no place here (LQ-11).
  static bool waits(const Waiting& request) { return request.wanted.wanted > 0 || request.claim.is_open(); }
  void settle(TimePoint now);
  void take_claims_back();
  void place_leases(TimePoint now);
  bool place_one(Key key, TimePoint now);
  std::optional<TimePoint> awaited_until(const Scheduling& wanted, TimePoint now);
  void delegate(Waiting& request, std::uint32_t node, TimePoint now);
  void forget_guesses(TimePoint now);
  void give_workers();
  std::optional<ProcessId> worker_for(const WorkerKind& kind);
  void grant(const Reservation& reservation, ProcessId worker);
  void send_forwards();
  Duration patience(const Waiting& request) const;
  void give_back_forwarded(TimePoint now);
  void refuse(Key key, ErrorRecord error);
  void drop_reservations(Key key, std::uint32_t count);
  void forget_if_done(Key key);
  void forget(Key key);
  void end_lease(std::uint64_t lease_id, TimePoint now);
  bool others_wait(const Lease& lease) const;
  bool others_wait(Key key) const;
  bool could_run_here(const Waiting& request) const;
  ResourceSet room_for_leases(Key asker) const;
  bool may_reserve(Key key, const WorkerKind& kind) const;
  void workers_came_or_not(JobId job);
  void drop_stale_reservations(TimePoint now);
  void look(TimePoint now);
  void claim(Waiting& request, TimePoint now);
  void keep_for_next(TimePoint now);
  bool freed_by_no_lease(const ResourceSet& need) const;
  void drop_requester(ProcessId process);

  LeaseQueueOptions options_;
  LocalResources resources_;
  ActorAdmission actors_;                              ///< LQ-7
  Keeper keeper_;                                      ///< LQ-10
  WorkerPool workers_;
  ClusterView view_, alone_;                           ///< alone_: this node, with nothing taken
  NodeView self_;
  UnknownNodes unknown_;
  std::map<std::uint32_t, ResourceSet> reported_;      ///< what other nodes last said is free
  std::optional<TimePoint> guessed_at_;                ///< when the oldest guess was made
  std::map<std::pair<ProcessId, std::uint64_t>, Key> keys_;
  std::map<Key, Waiting> requests_;                    ///< by arrival
  std::map<std::uint64_t, Reservation> reservations_;  ///< by age
  std::map<std::uint64_t, Lease> leases_;
  Turns turns_;
  std::uint32_t last_spread_ = 0;
  std::uint64_t places_ = 0;                           ///< given, and taken back (LQ-12), so far
  std::optional<TimePoint> look_at_;                   ///< while a request waits
  std::uint64_t next_key_ = 1, next_lease_ = 1, next_reservation_ = 1;
  bool suspended_warned_ = false;
  std::vector<LeaseEffect> effects_;
};

}  // namespace troupe::sched
