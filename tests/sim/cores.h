// The second world: real worker::Core objects (ownership, transit, calls and retries, actor clients, hosts), a real
// sched::LeaseQueue a node and a real head::State, on a model network, all from one seed.
//
// What is model here: the network (frames of one pair keep their order, pairs overtake each other, nodes are slow), the
// node daemon's shell around the lease queue and the retiring of idle workers, both real (forks, pairs of rings, news
// of deaths), and the users: drivers, tasks and actors submit, put, get, drop, cancel and pass on references by chance,
// and their functions take a while, fail, or wait.
// Faults: processes are killed (what was still in their memory is lost, what was published arrives before the news:
// DA-1, NEP-5) and nodes without a driver are lost.
//
// Invariants checked (see cores_invariants.cc)
//   CI-1  No object is freed while a living process holds a reference to it.
//   CI-2  At rest every owner's count of borrowers is the truth.
//   CI-3  A call ends once, with the value that its function gave or with a typed error; what a reference holds never
//         changes, and is the same wherever it is read.
//   CI-4  An actor sees the calls of one caller in their order.
//   CI-5  No attempt of a call begins twice; what is not to be retried begins once.
//   CI-6  At rest nobody waits: every get has ended, also of objects whose owner is dead, and no call is open.
//   CI-7  Once nobody holds anything, nothing is left: objects, holds, arrivals, requests, handles, leases; an hour
//         later, when keys are forgotten, what was kept for them neither.
//   CI-8  A stream gives its items in order, each once, over all attempts, and its end after the last; its generator is
//         never further ahead of the reader than its window (ST-1, ST-2, XSW-1, XSW-2).
//   CI-9  Of calls with one idempotency key one is executed: in one life of an actor, or among the tasks of one
//         process; all that succeed have its results (HA-3).
//   CI-10  A call that is said not to have been executed never began; where no node is lost, one that may have been did
//          begin. Where nothing dies, a call fails with its actor's death only if somebody ended
//          it.
//   CI-11  At rest each living worker that is no actor's and hosts none is of its node's lease queue, or was just asked
//          to retire (RTR-2, WK-2).
//   CI-12  An attempt of a task goes to workers and back a few times at most before it begins, also where workers are
//          shared (HO-1, LQ-2). What a process does at one moment ends: one that goes round then ends the simulator.
//   CI-13  Memory that somebody of its node was given stays what it was, and is lost to nobody there, also while the
//          daemon stands still with it doomed (OB-1, OB-2).
//   CI-14  The books of each node's lease queue are right (LQ-1, LQ-3).
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/random.h"
#include "core/head/state/state.h"
#include "core/node/base/call_ledger.h"
#include "core/node/daemon/workers/retirement.h"
#include "core/runtime/context.h"
#include "core/executor/executors.h"
#include "core/executor/hosted_actor.h"
#include "core/executor/stream_window.h"
#include "core/process/core.h"
#include "scheduler/lease_queue.h"
#include "tests/sim/cores_memory.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/world.h"

namespace troupe::sim {

/// The bugs that can be planted into this world.
const std::vector<std::string>& core_plants();

class CoreWorld;
using Token = std::uint64_t;

/// What a value says of itself: which call or put made it, and as which of its results.
struct Label {
  Token token = 0;
  std::uint64_t index = 0;
  auto operator<=>(const Label&) const = default;
};
std::optional<Label> label_of(const troupe::detail::Value& value);

/// A call that runs in a simulated process, until its function is done.
struct SimRun {
  worker::IncomingPtr call;
  worker::HostedActor* actor = nullptr;
  worker::CallContext context;
  Token token = 0;
  Time began{};
  int steps_left = 0;
  bool planned = false, endless = false, blocked = false;
  std::optional<worker::StreamWindow> window;    // of a generator
  std::vector<troupe::detail::ObjectPtr> waits;  // its gets
  std::vector<troupe::detail::ObjectPtr> refs;   // what its function holds, and may return
  std::vector<troupe::detail::HandlePtr> given;  // handles among its arguments, until its function has begun
};

struct Get {
  troupe::detail::ObjectPtr object;
  Time since{};
};

/// A stream that somebody reads.
struct Reader {
  troupe::detail::StreamPtr stream;
  Token token = 0;
  bool slow = false, planned = false;
};

/// A simulated process: all that lies around its core. What its user holds is in `refs` and `handles`.
class SimProcess final : public worker::Clock,
                         public worker::Transport,
                         public worker::ServiceThread,
                         public worker::Executors {
 public:
  SimProcess(CoreWorld& world, ProcessId id, wire::Role role, JobId job) : world(world), id(id), role(role), job(job) {}

  bool send(ProcessId peer, const net::FrameHeader& header, ByteView payload) override;
  bool attached(ProcessId peer) const override { return peer == daemon_of(id.node) || peers.contains(peer); }
  std::size_t backlog(ProcessId peer) const override;
  void set_begun(ProcessId peer, std::uint64_t number) override { begun_of[peer].note(number); }
  net::BegunCalls begun(ProcessId peer) const override;
  void drain_and_close(ProcessId peer) override;
  exec::Deadline now() const override;
  double chance() override;
  void wake() noexcept override;
  void flush_soon() noexcept override {}
  bool is_this_thread() const noexcept override { return false; }
  void work_queued() override { wake(); }
  bool takes_tasks() const override { return true; }
  void start_threads(worker::HostedActor&) override {}
  void post(worker::HostedActor& actor, std::function<void()> work) override;
  void run_beside(std::function<void()> work) override { core->host().queue_work(std::move(work)); }
  void stop() override { wake(); }
  void kill_process() override;
  void run(const worker::IncomingPtr& call, worker::HostedActor* actor) override;
  void join_threads(const worker::HostedActor*) override {}

  CoreWorld& world;
  const ProcessId id;
  const wire::Role role;
  const JobId job;
  bool alive = true, ready = false, light_host = false, in_order = false, step_planned = false, noted = false;
  std::unique_ptr<ProcessMemory> memory;                // where values have buffers
  std::unique_ptr<worker::Core> core;
  std::set<ProcessId> peers;
  std::map<ProcessId, net::SharedBegun> begun_of;
  std::optional<Time> timer_at;
  std::vector<std::unique_ptr<SimRun>> runs;
  std::vector<troupe::detail::ObjectPtr> refs;
  std::vector<troupe::detail::HandlePtr> handles;
  std::vector<Get> gets;
  std::vector<Reader> readers;
  std::map<std::string, std::vector<ObjectId>> keyed;   // results of its tasks, by idempotency key
  sched::WorkerKind kind;
  node::CallLedger ledger;                              // the daemon's
  std::optional<std::pair<ActorId, std::int32_t>> actor;  // the daemon's: what it hosts or shall host
  std::string reason;
  DeathCause cause = DeathCause::kCrashed;
};

struct SimNode {
  std::uint32_t number = 0;
  std::string id;
  LinkId link = 0;
  bool alive = true, registered = false, load_planned = false;
  double slowness = 1;
  std::unique_ptr<sched::LeaseQueue> leases;
  std::unique_ptr<NodeMemory> memory;
  std::map<std::uint32_t, std::unique_ptr<SimProcess>> processes;
  std::map<JobId, ProcessId> drivers;                   // jobs known here
  struct Start { wire::StartActor message; std::vector<int> gpu_ids; bool admitted = false; };
  std::map<std::pair<ActorId, std::int32_t>, Start> starts;
  std::map<std::pair<ActorId, std::int32_t>, ProcessId> light_actors;
  std::map<std::uint64_t, ProcessId> registering;       // token -> driver
  std::unique_ptr<node::Retirement> retirement;
  std::map<std::uint64_t, ProcessId> retiring;          // token -> worker that was asked
  std::map<ProcessId, wire::ProcessDied> deaths;        // remembered, also of other nodes
  std::set<std::uint32_t> dead_nodes;
  std::map<std::pair<ProcessId, ProcessId>, Time> told;  // when last
  std::uint64_t load_version = 0, starts_seen = 0, next_token = 1;
  std::uint32_t next_serial = 1;
  std::optional<Time> lease_timer;
};

class CoreWorld {
 public:
  explicit CoreWorld(WorldOptions options);
  ~CoreWorld();
  std::string run();
  const std::deque<std::string>& trace() const { return trace_; }
  std::uint64_t steps() const { return steps_; }

 private:
  friend class SimProcess;
  struct Frame { net::FrameHeader header; std::vector<std::byte> payload; Time at; bool by_daemon = false; };
  struct Channel { std::deque<Frame> frames; Time last{}; };
  struct CallTruth {
    worker::CallKind kind = worker::CallKind::kTask;
    ProcessId submitter;
    std::uint64_t order = 0;
    bool may_repeat = false;
    std::set<std::pair<std::uint32_t, ProcessId>> begun;  // attempt, process
    std::set<std::uint32_t> attempts;
    std::set<std::uint64_t> given;                         // results that its function returned, by index
    bool gave_error = false;
    bool noted = false;                                    // noted as begun, whatever became of it then
    std::string actor, key;                                // of an actor's call: whose; with the actor
    bool depends = false;                                  // on others' results: it may fail with their errors
    std::uint64_t items = 0, read = 0;                     // of a generator: what it makes, what was read
    std::uint64_t buffer = 0;
  };
  struct Outcome { std::optional<Label> label; ErrorCode code{}; bool ready = false; };

  // cores_network.cc
  void post(ProcessId ring_of, const net::FrameHeader& header, ByteView payload, bool by_daemon = false);
  void deliver(ProcessId from, ProcessId to);
  void refuse(SimNode& node, const net::FrameHeader& header);
  void hand_over(SimProcess& process, Frame frame, ProcessId ring);
  bool spoil(ProcessId from, ProcessId to, Frame& frame);
  void to_head(SimNode& node, const Frame& frame);
  void apply_head(head::Event event);
  void arm_tick();
  Duration delay(std::uint32_t node);
  void notice_bytes(ProcessId from, ProcessId to, wire::Method method, const std::vector<std::byte>& bytes,
                    Time not_before = {});
  template <class M>
  void notice(ProcessId from, ProcessId to, wire::Method method, const M& message, Time not_before = {}) {
    notice_bytes(from, to, method, wire::encode_message(message), not_before);
  }
  void respond(const net::FrameHeader& request, const std::vector<std::byte>& bytes, bool failed = false);
  void cut_tail(ProcessId from);
  void cut_links(std::uint32_t node);
  SimProcess* find(ProcessId id);
  SimProcess* find_any(ProcessId id);
  SimNode* node_at(std::uint32_t number);

  // cores_daemon.cc
  void join_node();
  void on_daemon(SimNode& node, const Frame& frame);
  void on_daemon_request(SimNode& node, const net::FrameHeader& header, ByteView payload);
  void on_daemon_notice(SimNode& node, const net::FrameHeader& header, ByteView payload);
  void connect(SimNode& node, const net::FrameHeader& request, ProcessId peer);
  void light_hosts(SimNode& node, const net::FrameHeader& request, JobId job);
  void apply_leases(SimNode& node);
  SimProcess& fork(SimNode& node, JobId job, wire::Role role, sched::WorkerKind kind = {});
  void ready(SimNode& node, SimProcess& process);
  void start_driver(SimNode& node);
  void plan_retiring(SimNode& node);
  void plan_stops(SimNode& node);
  void on_hold(SimNode& node, const net::FrameHeader& request, const wire::StoreHoldRequest& wanted);
  void on_fetch(SimNode& node, const net::FrameHeader& request, const wire::BufferDesc& wanted);
  void on_retire_answer(SimNode& node, ProcessId worker, bool refused);
  void actor_admitted(SimNode& node, std::pair<ActorId, std::int32_t> key, std::vector<int> gpu_ids);
  void construct_in(SimNode& node, SimProcess& process, std::pair<ActorId, std::int32_t> key);
  void peek(SimNode& node, const Frame& frame);
  void kill(SimProcess& process, const std::string& reason, DeathCause cause = DeathCause::kCrashed,
            bool in_order = false);
  void may_die_soon(ProcessId host, double chance, Random& random);
  void node_may_die_soon(std::uint32_t number, double chance);
  bool drives(const SimNode& node) const;
  void finish_death(SimNode& node, SimProcess& process);
  void on_remote_death(SimNode& node, const wire::ProcessDied& died);
  void kill_node(SimNode& node);
  void on_node_died(SimNode& node, const wire::NodeDied& died);
  void plan_load(SimNode& node);

  // cores_process.cc: the core's service thread and executors, and its users' functions
  void plan_step(SimProcess& process);
  void step(SimProcess& process);
  bool do_work(SimProcess& process);
  void begin(SimProcess& process, const worker::IncomingPtr& call, worker::HostedActor* actor);
  void plan_advance(SimProcess& process, SimRun& run, Duration after);
  void advance(SimProcess& process, SimRun& run);
  void end(SimProcess& process, SimRun& run, ErrorPtr error);
  void make_items(SimProcess& process, SimRun& run);
  void plan_read(SimProcess& process, Token token);
  void read(SimProcess& process, Token token);
  void look(SimProcess& process);
  void bury(SimProcess& process);

  // cores_activity.cc: what users do
  void plan_activity();
  void fault();
  void act(SimProcess& process, SimRun* run);
  void submit_task(SimProcess& process, std::vector<troupe::detail::ObjectPtr>& refs,
                   const troupe::detail::HandlePtr& given = {});
  void call_actor(SimProcess& process, std::vector<troupe::detail::ObjectPtr>& refs);
  void submit_calls(SimProcess& process, const troupe::detail::HandlePtr& handle,
                    std::vector<troupe::detail::ObjectPtr>& refs, const troupe::detail::HandlePtr& given = {});
  void create_actor(SimProcess& process, std::vector<troupe::detail::ObjectPtr>& refs);
  void submit_stream(SimProcess& process, std::vector<troupe::detail::ObjectPtr>& refs);
  void put(SimProcess& process, std::vector<troupe::detail::ObjectPtr>& refs);
  troupe::detail::Value value_of(SimProcess& process, Label label, const std::vector<troupe::detail::ObjectPtr>& from,
                                 double with_refs);
  void drop_all();

  // cores_invariants.cc
  void check(SimProcess& process);
  void check_held();
  void check_leases();
  void check_settled(const SimProcess& process, const troupe::detail::ObjectBase& object);
  void check_rest();
  void check_empty();
  void check_begin(const SimProcess& process, const SimRun& run);
  void check_rounds(const Frame& call);
  void check_ends(const SimProcess& process);
  void check_memory(const SimProcess& process, const ObjectId& object, const troupe::detail::Value& value);
  void check_key(const SimRun& run, bool executed);
  void check_death(const worker::ObjectEntry& entry);

  void say(const std::string& text);
  void broken(const std::string& text);
  bool planted(const char* name) const { return options_.plant == name; }
  std::uint32_t below(std::size_t n) { return random_.below(std::uint32_t(n)); }

  WorldOptions options_;
  Random random_;
  Random late_;  ///< of deaths at certain moments: where none comes, the world is what it is without them
  EventQueue queue_;
  head::State state_;
  head::Effects effects_;
  std::map<std::uint32_t, std::unique_ptr<SimNode>> nodes_;
  std::vector<std::unique_ptr<SimNode>> joining_;
  std::map<LinkId, SimNode*> links_;
  std::map<std::pair<ProcessId, ProcessId>, Channel> channels_;
  std::map<Token, CallTruth> calls_;
  std::map<ObjectId, Label> made_;                      // what each object shall be
  std::map<ObjectId, Outcome> outcomes_;
  std::set<ObjectId> tainted_;                          // somebody who was not the owner died with it: it may be lost
  std::map<std::tuple<ActorId, std::int32_t, ProcessId, std::uint64_t>, std::uint64_t> last_order_;
  std::map<std::tuple<ProcessId, std::uint64_t>, std::uint64_t> orders_;
  std::vector<SimProcess*> dead_;                       // to be buried when nothing runs in them
  std::optional<Time> tick_at_;
  Token last_token_ = 0;
  // of keyed calls: the one that runs or was executed, by key and life of the actor
  std::map<std::pair<std::string, std::int32_t>, std::pair<Token, bool>> executed_;
  // how often a task's attempt came to a worker, by its submitter, call and attempt
  std::map<std::tuple<ProcessId, std::uint64_t, std::uint32_t>, int> rounds_;
  std::set<std::string> ended_actors_;                  // that somebody ended, or that fail their construction
  bool busy_ = true, faults_ = false, dropping_ = false;
  bool task_keys_ = false, refuses_rings_ = false, retires_ = false, shares_ = false, memory_ = false;
  std::uint64_t steps_ = 0, planted_ = 0, asked_time_ = 0;  // the last: within one event
  std::string broken_;
  std::deque<std::string> trace_;
};

}  // namespace troupe::sim
