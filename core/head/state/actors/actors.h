// The life of actors: from creation to death, with restarts between.
//
//   1 create      place       3 started           5 crash, budget left        7 delay over
//   ------> PENDING ---> STARTING -----> ALIVE --------------------> BACKOFF ------------> PENDING
//              ^   2        |  | 4 start failed, elsewhere   |                                |
//              +------------|--+                             | 6 kill                         |
//                           | crash: as 5                    v                                |
//                           +------------------> KILLING --- process died ---> 5 or DEAD      |
//   DEAD, for good: finished, killed, constructor failed, job ended, handles gone, budget spent <-- from any state
//
// Wire states: PENDING and STARTING are kPending before the first life and kRestarting after it; BACKOFF and KILLING
// before a restart are kRestarting; KILLING without a restart is kDead for callers at once, and for monitors and the
// name when the process is gone.
//
// Light actors made without asking the head (LightActors) are records in LightTable: ALIVE or DEAD, nothing between.
//
// This class is the state machine: it says when an actor moves. What it uses knows one thing each:
//
//   ActorTable      the records, by process         ActorNames      who has a name, and what waits for it
//   LightTable      light actors                    ActorQuestions  who is told of moves and deaths
//   Graveyard       the latest deaths               ActorPlacement  where one may run, and what waits for room
//   Holds           who holds handles               Keeping         arguments and checkpoints
//   JobSurvivors    what a job leaves behind        ActorRows       what listings show
//   JobNodes        where its image is known
//
// Invariants
//   AC-1  An actor's name is its own until it is DEAD: a creation that finds its name held by an ending actor waits for
//         that (AN-1, AN-2).
//   AC-2  At most one process runs an actor: a restart begins only when the death of the process before is known; a
//         report of another incarnation is stale, and a process that starts one is killed.
//   AC-3  DEAD is final, and told once, with a message (AQ-1, AQ-2).
//   AC-4  A scoped actor without holders is told to end (kActorHandlesGone) when it is alive, and is never restarted.
//         When its last holder died, that comes kOrphanGrace later: a handle that it had sent may still be on its way.
//   AC-5  A question about an actor that is not known yet waits for its creation (AQ-3), for as long as its maker lives
//         when that has said that it will come, or when it waits for its name. A kill of such a one is its end at once.
//   AC-6  When the last actor that outlived its job is DEAD, all daemons hear JobEnded once more, with nothing to keep
//         (JS-2).
//   AC-7  A light actor is known from the first word of it: of its host, or of whoever kills or monitors it and knows
//         where it lives, so that a host that tells nothing delays neither. What was killed before anybody knew it is
//         DEAD; a host or creator that tells of it later is told so.
//   AC-8  The death of a node on which an actor only waits (AP-4) costs it nothing: it waits elsewhere. Should the node
//         have let it in and the word of that be lost with it, its constructor may have begun there.
//   AC-9  A start that fails for a reason of its node is no crash: it goes to each other node that has room before it
//         goes to that one again. The user hears of it, and why, once the actor has waited for kWarnBusy. A start names
//         a living node that knows the job's image, as long as there is one.
//   AC-10  What the end of a job leaves behind is what is there when all others have ended, one whose creation had
//          waited for a name of theirs included.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/head/state/actors/actor_names.h"
#include "core/head/state/actors/actor_placement.h"
#include "core/head/state/actors/actor_questions.h"
#include "core/head/state/actors/actor_rows.h"
#include "core/head/state/actors/actor_table.h"
#include "core/head/state/actors/graveyard.h"
#include "core/head/state/actors/handles.h"
#include "core/head/state/actors/job_nodes.h"
#include "core/head/state/actors/job_survivors.h"
#include "core/head/state/actors/keeping.h"
#include "core/head/state/actors/light_table.h"
#include "core/head/state/events.h"
#include "core/head/state/jobs.h"
#include "core/head/state/liveness.h"
#include "core/head/state/membership.h"

namespace troupe::head {

/// a dead holder may have sent handles that are counted soon
inline constexpr Duration kOrphanGrace = std::chrono::seconds(1);
inline constexpr Duration kKillGrace = std::chrono::seconds(5);  ///< then a killed process counts as dead

/// What the directory may look at, and change only where it is not const.
struct ActorsWorld {
  Membership& membership;
  const Jobs& jobs;
  const Liveness& liveness;
  Random& random;
};

class Actors {
 public:
  explicit Actors(ActorsWorld world);
  Actors(const Actors&) = delete;
  Actors& operator=(const Actors&) = delete;

  // Requests: each is answered exactly once, now or later.
  void create(Turn& turn, Caller caller, wire::ActorSpec spec);
  void resolve(Turn& turn, Caller caller, ActorId actor);
  void monitor(Turn& turn, Caller caller, const wire::ResolveActor& request);
  void kill(Turn& turn, Caller caller, wire::KillActor request);
  void get_named(Turn& turn, Caller caller, wire::NamedActor request);
  void handle_counts(Turn& turn, ProcessId holder, const wire::HandleCounts& counts);

  // Reports.
  void light(Turn& turn, const wire::LightActors& report);
  void on_placed(Turn& turn, const wire::ActorStarted& report);
  void on_started(Turn& turn, const wire::ActorStarted& report);
  void on_start_failed(Turn& turn, ProcessId source, const wire::StartActorFailed& report);
  void on_exited(Turn& turn, const wire::ActorExited& report);
  void on_checkpoint(Turn& turn, ProcessId source, wire::Checkpoint checkpoint);
  /// The answer of a daemon to what the directory asked it; false: it was no question of the directory.
  bool on_answer(Turn& turn, std::uint32_t node, std::uint64_t token, const Message& body);
  void on_process_died(Turn& turn, const wire::ProcessDied& died);
  void on_node_died(Turn& turn, std::uint32_t node, const std::string& reason);
  void on_node_joined(Turn& turn);
  /// Ends what the job does not leave behind; returns what goes on.
  wire::JobEnded on_job_ended(Turn& turn, JobId job, const std::string& reason);

  /// The cluster has changed: tries those that wait for a place.
  void place_waiting(Turn& turn);
  void on_time(Turn& turn);
  std::optional<Time> next_deadline() const;

  wire::StateReply rows(JobId job) const { return rows_.of_job(job); }
  std::size_t living() const { return actors_.size() + light_.size(); }
  /// Does this process host an actor now?
  bool hosts_any(ProcessId process) const;

  // For invariant checks of the simulator and tests.
  std::optional<wire::ActorState> state_of(ActorId actor) const;
  std::uint32_t holders(ActorId actor) const { return holds_.holders(actor); }
  /// It was sent to this node as one with room for it: it claims nothing (AP-4).
  bool starts_in_room(ActorId actor, std::uint32_t node) const;
  /// Look-ups that wait for the next holder of a name.
  std::size_t waiting_look_ups() const { return names_.waiting_look_ups(); }
  const JobNodes& job_nodes() const { return job_nodes_; }
  const Keeping& keeping() const { return keeping_; }

 private:
  using Actor = ActorRecord;
  using Phase = ActorRecord::Phase;
  using Subscribers = ActorQuestions::Subscribers;
  using Error = std::shared_ptr<const ErrorRecord>;
  struct Crash {
    DeathCause cause = DeathCause::kCrashed;
    std::string reason;
    std::vector<std::string> log_tail;
  };
  enum class TimerKind : std::uint8_t { kRetry, kWarn, kClaim, kKillOverdue };
  struct Timer { TimerKind kind; ActorId actor; std::uint64_t stamp = 0; };
  enum class Known { kNo, kRecord, kLight, kDead };

  // creation and names
  std::optional<ErrorRecord> refusal(const Caller& caller, const wire::ActorSpec& spec) const;
  bool take_name(Turn& turn, const Caller& caller, wire::ActorSpec& spec);
  void free_name(Turn& turn, const Actor& actor);
  void ask_again(Turn& turn, ActorNames::Waiting waiting);
  bool comes(ActorId id) const;
  bool withdraw(Turn& turn, ActorId id);
  void refused(Turn& turn, const wire::ActorSpec& spec, std::uint32_t node);

  // placement and start
  void enqueue(Turn& turn, Actor& actor);
  ActorPlacement::Attempt try_place(Turn& turn, ActorId id);
  void start_on(Turn& turn, Actor& actor, std::uint32_t node);
  void start_refused(Turn& turn, Actor& actor, const ErrorRecord& why);
  std::uint32_t knows_image(const Actor& actor, std::uint32_t for_node) const;
  void warn_waiting(Turn& turn, const Actor& actor);
  void warn_failing(Turn& turn, const Actor& actor, std::uint32_t node, const std::string& why);
  void warn(Turn& turn, const Actor& actor, std::string text) const;
  void wait_again(Turn& turn, Actor& actor);
  void kill_stray(Turn& turn, const wire::ActorStarted& report);

  // crash and restart
  void process_gone(Turn& turn, Actor& actor, const Crash& crash);
  void crash(Turn& turn, Actor& actor, const Crash& crash);
  std::string crash_text(const Actor& actor, const Crash& crash) const;

  // kill, the last handle, and death
  void begin_kill(Turn& turn, Actor& actor, bool revive);
  void release(Turn& turn, ActorId id);
  void release_kept(Turn& turn);
  void die(Turn& turn, Actor& actor, ActorDeath death, Error error = nullptr);
  void add_light(Turn& turn, ActorId id, const wire::LightHome& home, bool heard);
  void heard_again(Turn& turn, ActorId id, const wire::LightActors& report);
  void end_light(Turn& turn, ActorId id, DeathCause cause, const std::string& why) const;
  void light_died(Turn& turn, ActorId id, ActorDeath death, Error error = nullptr);
  void host_died(Turn& turn, const wire::ProcessDied& died, DeathCause cause);
  void buried(Turn& turn, DeadActor dead, Subscribers subscribers);
  bool end_others(Turn& turn, JobId job, const JobSurvivors::Staying& staying, const std::string& why);

  // questions and time
  Known known(ActorId id) const;
  void answer_parked(Turn& turn, ActorId id);
  void moved(Turn& turn, const Actor& actor);
  std::uint64_t arm(Turn& turn, Duration delay, TimerKind kind, ActorId actor);
  void expired(Turn& turn, const Timer& timer);

  ActorsWorld world_;
  ActorTable actors_;
  LightTable light_;
  Graveyard graveyard_;
  Holds holds_;
  ActorNames names_;
  ActorQuestions questions_;
  std::set<ActorId> begun_;  // AC-5: their makers have not asked for them yet
  ActorPlacement placement_;
  Keeping keeping_;
  JobSurvivors survivors_;
  JobNodes job_nodes_;
  ActorRows rows_;
  std::multimap<Time, Timer> timers_;
  // held by a process that died (AC-4), until their grace is over
  std::deque<std::pair<Time, std::vector<ActorId>>> orphans_;
  std::uint64_t stamps_ = 0;
};

}  // namespace troupe::head
