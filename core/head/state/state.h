// The head as a state machine: events in, effects out. It is composed of small parts, each with its own contract; this
// class only says which part hears of what, and in which order.
//
//   Membership  nodes, links, deaths by silence, the cluster view      Jobs     drivers and namespaces
//   Actors      the life of actors (its parts: folder actors)         Listing kListState Kv the key-value table
//   Metrics     what processes count and measure
//
// One thread. No I/O, no clock, no randomness but the seed's: the same seed and events give the same effects, so the
// list of events is a complete log, and the simulator replays a failure from its seed.
//
// Invariants
//   HS-1  Every request of a living process is answered exactly once; one that cannot be read, with a
//         SerializationError.
//   HS-2  What comes from a fenced node, an old link or a dead process changes nothing.
//   HS-4  A tool (events.h) only reads.
//   HS-3  After apply, next_deadline() is the time of the next Tick that matters, if any.
#pragma once
#include <cstdint>
#include <optional>

#include "core/head/state/actors/actors.h"
#include "core/head/state/events.h"
#include "core/head/state/jobs.h"
#include "core/head/state/kv.h"
#include "core/head/state/listing.h"
#include "core/head/state/liveness.h"
#include "core/head/state/membership.h"
#include "core/head/state/metrics.h"
#include "core/base/random.h"

namespace troupe::head {

struct StateOptions {
  MembershipOptions membership;
  std::uint64_t seed = 0;
};

class State {
 public:
  explicit State(StateOptions options);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void apply(Time now, Event event, Effects& effects);
  std::optional<Time> next_deadline() const;

  const Membership& membership() const { return membership_; }
  const Jobs& jobs() const { return jobs_; }
  const Actors& actors() const { return actors_; }
  /// The rows of what the head knows by itself: nodes, jobs, actors, metrics; none of other kinds. Of more than
  /// wire::kRowsMax actors none: `total` says how many there are, and a warning why.
  wire::StateReply rows(wire::StateKind kind) const;

 private:
  void on_frame(Turn& turn, Frame& frame);
  void on_request(Turn& turn, Frame& frame);
  void on_notice(Turn& turn, Frame& frame);
  void on_tool(Turn& turn, Frame& frame);
  void on_response(Turn& turn, Frame& frame);
  bool on_actor_request(Turn& turn, Caller caller, Frame& frame);
  bool on_kv_request(Turn& turn, Caller caller, Frame& frame);
  void on_time(Turn& turn);
  void list(Turn& turn, Caller caller, wire::StateQuery query);
  void process_died(Turn& turn, const wire::ProcessDied& died);
  void end_job(Turn& turn, JobId job, bool failed, const std::string& reason);

  Random random_;
  Membership membership_;
  Liveness liveness_;
  Jobs jobs_;
  Actors actors_;
  Listing listing_;
  Kv kv_;
  Metrics metrics_;
};

}  // namespace troupe::head
