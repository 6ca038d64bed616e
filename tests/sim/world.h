// The simulated cluster around a real head::State: model daemons, workers and drivers on a model network, all from one
// seed.
//
// Network: frames of one (source, destination) pair keep their order, pairs overtake each other; each node has its own
// speed.
// Faults: processes crash, nodes are killed (their link breaks) or frozen (silence, then they thaw and find themselves
// fenced), drivers crash or finish. What a process said before its end arrives before the notice of its death (DA-1).
//
// The models keep the truth (who hosts what, who holds what); invariants.cc compares it with what the head believes.
//
// Invariants checked (see check_step and check_end)
//   SI-1  At most one living copy of an actor that is not dead, and of a name.
//   SI-2  A request of a living process is answered exactly once; at the end none is left but monitors of living
//         actors.
//   SI-3  A dead actor never comes back: neither in the directory nor for a subscriber; its restarts never fall.
//   SI-4  The head never sends a node more than it has (in runs without tasks), but for claims (AP-4); no node reports
//         more than its total.
//   SI-5  Monitors hear of a death once, with a message.
//   SI-6  At rest: the head's count of holders is the truth; no scoped actor lives without holders; nothing waits for a
//         place that is free; every daemon's view is the head's; processes of ended jobs are gone, but for what
//         outlives them.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/head/state/state.h"
#include "scheduler/cluster_view.h"
#include "tests/sim/event_queue.h"

namespace troupe::sim {

using head::Frame;
using head::LinkId;
using head::Message;
using wire::Method;

struct WorldOptions {
  std::uint64_t seed = 1;
  bool verbose = false;
  bool full_rings = false;                 ///< of the cores: now and then, for some milliseconds
  std::string plant;                       ///< a bug put into the environment, to prove that the checks can fail
  Duration busy = std::chrono::seconds(15);  ///< so long there are faults and new work
  Duration rest = std::chrono::seconds(60);  ///< so long everything may come to rest
};

/// The bugs that can be planted.
const std::vector<std::string>& plants();

struct ActorTruth {
  wire::ActorSpec spec;
  bool light_batch = false, ever_dead = false;
  bool fails_constructor = false, crashes_constructor = false;
  std::int32_t restarts_seen = 0;
};

struct Proc {
  ProcessId id;
  wire::Role role = wire::Role::kWorker;
  JobId job = 0;
  bool alive = true, light_host = false, ending = false;
  struct Hosted { std::int32_t restarts = 0; bool constructed = false; };
  std::map<ActorId, Hosted> hosts;
  std::set<ActorId> holds;                 // handles in its memory
  std::map<ActorId, int> pinned;           // sent on and not yet confirmed: kept
  std::map<ActorId, std::pair<wire::ActorState, std::int32_t>> heard;  // last news of each actor
  struct Pending { Method method; ActorId actor; std::function<void(const Message&)> done; };
  std::map<std::uint64_t, Pending> pending;
  std::uint64_t next_token = 1, next_seq = 1;
  int lookups = 0;                         // named lookups under way: drops wait for them
  std::vector<ActorId> waiting_drops;
};

struct Node {
  std::uint32_t number = 0;
  std::string id;
  LinkId link = 0;
  bool alive = true, frozen = false, registered = false, fenced = false;
  sched::ResourceAccount account;
  std::map<std::string, std::string> labels;
  std::map<std::uint32_t, Proc> procs;
  sched::ClusterView view;
  std::uint64_t load_version = 0, starts_seen = 0;
  bool load_planned = false;
  std::uint32_t next_serial = 1;
  double slowness = 1;
  std::map<std::pair<ActorId, std::int32_t>, sched::ResourceSet> taken;
  std::map<std::pair<ActorId, std::int32_t>, wire::StartActor> waiting;  // for what tasks have (AP-4)
  std::deque<EventQueue::Work> thaw;       // what arrived while it was frozen
};

class World {
 public:
  explicit World(WorldOptions options);
  /// Empty when every invariant held; else what was broken.
  std::string run();
  const std::deque<std::string>& trace() const { return trace_; }
  std::uint64_t steps() const { return steps_; }

 private:
  // network.cc: the head, and the ways to and from it
  void to_head(Node& node, Frame frame);
  void apply(head::Event event);
  void perform(head::Effect& effect);
  void deliver(Node& node, head::Send send);
  void arm_tick();
  Duration delay(const Node& node);
  Time in_order(ProcessId from, ProcessId to, const Node& node);
  void on_node(Node& node, EventQueue::Work work, Time when);
  Node* node_of(ProcessId process);
  Proc* proc_of(ProcessId process);
  std::uint64_t request(Proc& proc, Method method, Message body, ActorId actor = {},
                        std::function<void(const Message&)> done = {});
  void notice(Proc& proc, Method method, Message body);

  // daemon_model.cc
  void join_node();
  void daemon_message(Node& node, head::Send& send);
  void daemon_notice(Node& node, Method method, Message body);
  void start_actor(Node& node, wire::StartActor start);
  void place_actor(Node& node, const wire::StartActor& start);
  void let_in(Node& node);
  void construct(ProcessId process, ActorId actor, std::int32_t restarts);
  void plan_load(Node& node);
  Proc& spawn(Node& node, JobId job, wire::Role role);
  void kill_proc(Proc& proc, const std::string& reason, DeathCause cause = DeathCause::kCrashed);
  void release(Node& node, ActorId actor, std::int32_t restarts);
  void kill_node(Node& node);
  void freeze(Node& node, Duration span);
  void fence(Node& node);
  void start_driver(Node& node);

  // process_model.cc
  void process_message(Proc& proc, head::Send& send);
  void finish_actor(Proc& proc, ActorId actor, DeathCause cause);
  void create_actor(Proc& proc);
  void create_light(Proc& proc);
  void look_up(Proc& proc);
  void drop(Proc& proc, ActorId actor);
  void send_drop(Proc& proc, ActorId actor);
  void end_lookup(Proc& proc);
  void hand_over(Proc& from, Proc& to, ActorId actor);
  void ask_something(Proc& proc);

  // activity.cc
  void plan_activity();
  void act();
  void fault();
  Proc* random_proc(bool drivers_only);
  std::optional<ActorId> random_held(const Proc& proc);

  // invariants.cc
  void check_step();
  void check_end();
  void check_copies();
  void check_no_return();
  void check_waiting(const std::set<ActorId>& dead);
  std::map<ActorId, std::set<ProcessId>> holders_in_truth();

  void say(const std::string& text);
  void broken(const std::string& text);
  bool planted(const std::string& name) const { return options_.plant == name; }

  WorldOptions options_;
  Random random_;
  EventQueue queue_;
  head::State state_;
  head::Effects effects_;
  std::map<std::uint32_t, std::unique_ptr<Node>> nodes_;   // by number once registered
  std::map<LinkId, Node*> links_;
  std::vector<std::unique_ptr<Node>> joining_;
  std::map<std::pair<ProcessId, ProcessId>, Time> last_delivery_;
  std::map<ActorId, ActorTruth> actors_;
  std::map<JobId, bool> jobs_;                             // running?
  std::set<ActorId> killed_by_word_;                       // kill() was asked for
  std::map<ActorId, wire::ActorState> last_state_;
  std::optional<Time> tick_at_;
  Time end_{};
  LinkId next_link_ = 1;
  bool busy_ = true, tasks_ = false, places_ = false;
  std::uint64_t steps_ = 0, planted_ = 0;
  std::string broken_;
  std::deque<std::string> trace_;
};

}  // namespace troupe::sim
