// The control messages: plain aggregates, encoded by the codec of serialize.h, carried as payload of frames.
//
// Every process speaks in frames (net/base/frame.h). A frame's header has source and destination ProcessId; whoever is
// not the destination forwards it unread: worker -> its daemon -> the other node's daemon -> worker. The daemon of a
// node is {node, 0}, the head {0, 0}. Frames between one source and one destination arrive in order (but that later
// ones may pass counts: CR-5, core/runtime/frame_router.h), at most once; they are lost only with one of the two
// processes, or a node on the way, and then a death notice follows.
//
//   kRequest   token = request id of the source, arg0 = Method; payload = the request struct
//   kResponse  token = the request's; arg0 = 0: payload = the reply struct; arg0 = 1: payload = ErrorRecord
//   kNotice    arg0 = Method; one way
//   kCall...   the hot path: tasks and actor calls, see core/runtime/frames.h
//
// Invariants
//   MS-1  Method numbers are on the wire: never renumber. A new field goes at the end of its struct and both sides must
//         be of one protocol version (kProtocolVersion), which the handshake compares.
//   MS-2  A request is answered exactly once, unless its destination dies.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include <troupe/options.h>

namespace troupe::wire {

inline constexpr std::uint32_t kProtocolVersion = 2;

enum class FrameKind : std::uint8_t {
  kRequest = 1, kResponse = 2, kNotice = 3,
  kCall = 16,        // a task, an actor's construction, a call or a cast
  kReply = 17,       // its results, or its error
  kStreamItem = 18,  // one item of a generator
  kValueRequest = 19, kValue = 20,  // a borrower reads from an owner
  kControl = 21,     // cancel, recall, stream credit, counts, acknowledgements
};

// -------------------------------------------------------------------------------------------------------------- values

/// A buffer of a store, with the place that it was made at.
struct BufferDesc {
  std::uint32_t node = 0, slot = 0, generation = 0;
  std::uint64_t size = 0;
  bool operator==(const BufferDesc&) const = default;
};
/// A reference inside a value. The owner is id.maker.
struct RefDesc { ObjectId id; };
/// An actor handle inside a value, with what a caller must know to call.
struct HandleDesc {
  ActorId actor;
  std::string name, class_name;
  std::int32_t max_task_retries = 0, max_pending_calls = -1;
  std::uint8_t flags = 0;      // HandleFlag (handles.h)
  ProcessId host;              // light actors that never move: where it lives; nil when the head must be asked
};
/// A value as it travels: body bytes (codec) and what rides beside them. A body above kInlineMax lies in
/// buffers.back().
struct ValueDesc {
  std::vector<std::byte> body;
  std::vector<BufferDesc> buffers;
  std::vector<RefDesc> refs;
  std::vector<HandleDesc> handles;
  bool body_in_buffer = false;
};
inline constexpr std::size_t kInlineMax = 100 * 1024;

// ---------------------------------------------------------------------------------------- bootstrap on the unix socket
// SOCK_SEQPACKET, one message a packet: u32 BootKind then the struct; descriptors ride by SCM_RIGHTS in the order
// given.

enum class BootKind : std::uint32_t {
  kHello = 1, kWelcome = 2, kRefused = 3, kPair = 4, kRankSocket = 5,  // process <-> daemon
  kFork = 16, kForked = 17, kExited = 18, kLauncherReady = 19,  // daemon <-> launcher
};
enum class Role : std::uint8_t { kDriver = 1, kWorker = 2, kHead = 3, kDaemon = 4, kLauncher = 5, kTool = 6 };

/// What a job's processes are started with, by its launcher on each node.
struct Image {
  std::string digest;                        // of the executable and its mapped non-system libraries
  // path that the daemon may exec (for a local driver /proc/PID/exe is resolved)
  std::string executable;
  std::vector<std::string> argv;
  std::string working_dir;
  std::vector<std::string> environment;      // "K=V"
  bool operator==(const Image&) const = default;
};

/// First packet of a process. Descriptors: its doorbell memfd, its service eventfd.
struct Hello {
  std::uint32_t protocol = kProtocolVersion;
  Role role = Role::kWorker;
  std::int32_t pid = 0;
  std::uint32_t serial = 0;                  // worker: the serial that the daemon gave to its fork; driver: 0
  std::string registry_digest;               // of the registered functions; must equal the job's
  std::string name_space;                    // driver
  Image image;                               // driver
};
/// The daemon's answer: who the process is, and what it may use. Descriptors: pair with the daemon, the daemon's
/// doorbell, the daemon's eventfd, arena read-only, arena read-write, index, this process's pin table.
struct Welcome {
  ProcessId self;
  std::string node_id, worker_id, session_dir;
  JobId job = 0;
  std::string name_space;
  ProcessId driver;
  std::uint64_t store_capacity = 0;
  std::uint32_t store_slots = 0;
  std::string registry_digest;
  Resources node_resources;
  std::uint64_t call_memory = ~std::uint64_t(0);  // of one process: core/runtime/call_budget.h
  std::uint64_t stack_size = 1 << 20;
  std::string log_level;
  std::uint64_t store_large_from = 0;
};
struct Refused { ErrorRecord error; };
/// A ring pair with a peer on this node. Descriptors: pair memfd, the peer's doorbell, the peer's eventfd.
struct PairOffer { ProcessId peer; std::uint8_t side = 0; };

/// Daemon to launcher: fork a worker; the descriptor is its unix socket, then its stdout and stderr pipe ends.
struct ForkRequest {
  std::uint32_t serial = 0;
  std::map<std::string, std::string> env_vars;
  std::string working_dir;
  std::vector<int> gpu_ids;
};
struct Forked { std::uint32_t serial = 0; std::int32_t pid = 0; std::string error; };
struct Exited { std::uint32_t serial = 0; std::int32_t pid = 0; std::int32_t wait_status = 0; };
struct LauncherReady { std::int32_t pid = 0; std::int32_t threads = 1; std::string registry_digest; };

// ------------------------------------------------------------------------------------------------------------- methods

enum class Method : std::uint16_t {
  // process -> its daemon (or, for leases, the daemon that granted)
  // request ConnectRequest -> ConnectReply; the PairOffer comes on the unix socket before the response
  kConnect = 1,
  kLeaseWanted = 2,       // notice LeaseWanted
  kLeaseReturned = 3,     // notice LeaseReturned
  kWorkerBlocked = 4,     // notice WorkerBlocked
  kLightHost = 5,         // request LightHostRequest -> LightHostReply
  kStoreLease = 6,        // request StoreLeaseRequest -> StoreLeaseReply
  kStoreAllocate = 7,     // request StoreAllocateRequest -> StoreAllocateReply; waits while the store is full
  kStoreFree = 8,         // notice StoreFree: slots that nobody in this process pins any more; chunks given back
  kStoreFetch = 9,        // request StoreFetchRequest -> StoreFetchReply: a local copy of a remote buffer
  kStoreHold = 10,        // request StoreHoldRequest -> Empty: a process of another node pins buffers here
  kStoreUnhold = 11,      // notice StoreHoldRequest
  kStoreUsage = 12,       // request Empty -> StoreUsageReply
  kLeaseRenew = 13,       // request LeaseRenew -> LeaseRenewed: may the lease have further tasks? (TS-7, TS-8)
  kKillProcess = 14,      // request KillProcess -> Empty: forced cancel, deaf task
  // request Empty -> Empty, daemon -> worker: an idle worker is asked to end; it refuses while it has work or others
  // hold what it owns
  kProcessRetire = 15,
  kStoreWithdraw = 16,    // notice StoreWithdraw: nobody waits for that request for memory any more
  // request JobOutput -> Empty: answered when all that the job's processes wrote was handed to its driver; also daemon
  // -> daemon
  kJobOutput = 17,
  // daemon -> process
  kLeaseGranted = 32,     // notice LeaseGranted
  kLeaseRefused = 33,     // notice LeaseRefused
  kProcessDied = 34,      // notice ProcessDied; also daemon -> head, daemon -> daemon
  kNodeDied = 35,         // notice NodeDied; head -> daemons -> processes
  kLogLines = 36,         // notice LogLines, to the driver
  kQueryState = 38,       // request StateQuery -> StateReply: daemon asks a process, head asks a daemon
  kShutdown = 39,         // notice Empty: end now, in order
  kConstructActor = 40,   // notice ConstructActor, to the worker that shall host it
  kWarning = 41,          // notice WarningText: shown by the driver (infeasible requests, long waits)
  kStoreTrim = 42,        // notice Empty: the store is tight; give back what is kept for reuse (StoreClient::trim)
  // request Empty -> Empty: what the process has printed goes to its standard output and error now
  kFlushOutput = 43,
  // any process -> head (routed by its daemon)
  kCreateActor = 64,      // request ActorSpec -> CreateActorReply
  kResolveActor = 65,     // request ResolveActor -> ActorLocation, and kActorMoved notices from now on
  kGetNamedActor = 66,    // request NamedActor -> NamedActorReply
  kKillActor = 67,        // request KillActor -> Empty
  kActorStarted = 68,     // notice ActorStarted (from the hosting worker)
  kActorExited = 69,      // notice ActorExited (from the hosting worker): finished, stopped, constructor failed
  kHandleCounts = 70,     // request HandleCounts -> Empty: this process now holds / no longer holds handles
  kMonitorActor = 71,     // request ResolveActor -> ActorDeath, answered at the final death
  kCheckpoint = 72,       // notice Checkpoint
  kKvPut = 73, kKvGet = 74, kKvDel = 75, kKvKeys = 76,
  kListState = 77,        // request StateQuery -> StateReply
  kLightActors = 78,      // notice LightActors: light actors made without asking the head first, batched
  kClusterInfo = 79,      // request Empty -> ClusterInfo
  kMetrics = 80,          // notice MetricsReport
  // head -> hosting worker: notice ResolveActor: no handle is left; finish what is queued, then end
  kActorHandlesGone = 81,
  kActorMoved = 82,       // head -> holders: notice ActorLocation
  kEndActor = 83,         // head -> hosting worker: notice EndActor: kill of a light actor
  kKvSwap = 84,           // request KvSwap -> KvValue: the value that is there now
  // host, head -> creator: notice ResolveActor: what its creation names is counted, or not needed
  kArgumentsTaken = 85,
  // daemon -> head
  kRegisterNode = 96,     // request RegisterNode -> RegisterNodeReply
  // notice LinkReport: the link to another node is lost for long, or is there again; the head judges
  kLinkReport = 102,
  kRegisterJob = 97,      // request RegisterJob -> RegisterJobReply
  kJobFinished = 98,      // notice JobFinished
  kNodeLoad = 99,         // notice NodeLoad: available resources and pending demand, versioned
  kStartActorFailed = 100,// notice StartActorFailed
  kActorPlaced = 101,     // notice ActorStarted: the daemon hands the construction to this process now
  // head -> daemon
  kClusterView = 112,     // notice ClusterView: versioned delta
  kStartActor = 113,      // notice StartActor
  kJobEnded = 114,        // notice JobEnded: end the job's processes
  kKillActorProcess = 115,// notice KillProcess
  kPing = 116,            // request Empty -> Empty: head asks a daemon whether it is there
  kKeep = 117,            // request KeepRequest -> KeepReply: pin copies of these buffers under this name
  kKeepNoMore = 118,      // notice KeptName
  // daemon -> daemon
  kForwardLease = 128,    // notice LeaseWanted (origin kept)
  kLeaseCounted = 129,    // notice LeaseCounted: to the daemon that passed a lease on
  kJobImage = 131,        // request JobImageRequest -> JobImageReply: what a job's processes are started with
  // notice ConnectRequest: the dead process's last messages were drained (process -> its daemon)
  kProcessDiedAck = 130,
  // notice Congestion: a process, or node {n, 0}, takes nothing; its senders there are to wait, or may go on
  kCongestion = 133,
  // notice StoreHoldRequest (holder: the daemon that says it): these buffers were freed at their origin
  kCopiesVoid = 132,
  // collectives (wire/group_messages.h)
  // request GroupWord -> GroupAnswer, or a notice: between the processes of a group and who forms it
  kGroupWord = 160,
  kExpectRanks = 161,     // notice ExpectRanks, to one's daemon: ranks that will come to its data port for this process
  kRankLeft = 162,        // notice RankLeft, to one's daemon
  kRankDoor = 163,        // request Empty -> RankDoor, to a daemon: what waits at its door
};

struct Empty {};
struct ConnectRequest { ProcessId peer; };
/// through_daemon: there is no memory for another pair (DaemonConfig::ring_memory); frames to the peer go by the
/// daemon.
struct ConnectReply { bool through_daemon = false; };

// -------------------------------------------------------------------------------------------------------------- leases

/// What makes tasks interchangeable for a lease. Equal classes share leases.
struct LeaseClass {
  JobId job = 0;
  Resources resources;
  Scheduling scheduling;
  LabelSelector labels;
  RuntimeEnv env;
  bool operator==(const LeaseClass&) const = default;
};
/// The requester wants `wanted` leases of this class in all, besides those it holds (absolute, so resending is
/// harmless; 0 withdraws). request_id is the requester's number for the class.
struct LeaseWanted {
  ProcessId requester;
  std::uint64_t request_id = 0;
  LeaseClass lease_class;
  std::uint32_t wanted = 0;
  std::uint32_t hops = 0;                       // how many daemons have passed it on
  std::vector<std::pair<std::uint32_t, std::uint64_t>> bytes_by_node;  // locality: argument bytes on each node
  std::uint32_t claim_ms = 0;                   // passed on to wait there for its turn, for so long (LQ-11); 0: not so
};
/// `shared`: in that worker tasks wait already, because max_suspended_workers do; further ones run beside them.
struct LeaseGranted {
  std::uint64_t request_id = 0;
  std::uint64_t lease_id = 0;
  ProcessId worker;
  std::int32_t worker_pid = 0;
  std::vector<int> gpu_ids;
  bool shared = false;
};
/// What a lease gives a task beyond CPUs, in its call frame.
struct TaskGrant { Resources resources; std::vector<int> gpu_ids; };
struct LeaseRefused { std::uint64_t request_id = 0; ErrorRecord error; };
/// What became of forwarded leases: granted there, or given back because they do not fit there now. `refused`: the
/// requester hears from there that it gets none.
struct LeaseCounted {
  ProcessId requester;
  std::uint64_t request_id = 0;
  std::uint32_t node = 0, granted = 0, given_back = 0;
  bool refused = false;
};
struct LeaseReturned { std::uint64_t lease_id = 0; };
/// Of a lease whose CPUs were lent, or that has lasted its term. Its number from now on; 0: it is over.
struct LeaseRenew { std::uint64_t lease_id = 0; };
struct LeaseRenewed { std::uint64_t lease_id = 0; };
/// From the worker: its task of this lease waits (true) or goes on (false). Idempotent.
struct WorkerBlocked { std::uint64_t lease_id = 0; bool blocked = false; };
struct LightHostRequest { JobId job = 0; };
struct LightHostReply { std::vector<ProcessId> hosts; };
/// From the head with process.serial = 0: whichever process of that node constructs `actor`; a start that still waits
/// there is dropped.
struct KillProcess {
  ProcessId process;
  std::string reason;
  DeathCause cause = DeathCause::kKilled;
  ActorId actor = {};
};
struct WarningText { std::string text; };

/// A process is gone. `begun` gives, for each process whose calls went by the daemon, the number up to which it had
/// begun them all; `begun_beyond` the numbers of those that had begun out of their order.
struct ProcessDied {
  ProcessId process;
  Role role = Role::kWorker;
  JobId job = 0;
  std::int32_t pid = 0;
  std::int32_t wait_status = 0;                 // as waitpid gives it; -1 unknown
  bool out_of_memory = false;
  bool expected = false;                        // retired, shut down, killed by request
  DeathCause cause = DeathCause::kCrashed;
  std::string reason;                           // "killed by SIGKILL (9)", "exited with code 3", ...
  std::string node_id;
  std::vector<std::string> log_tail;
  std::vector<std::pair<ProcessId, std::uint64_t>> begun;  // of sources whose calls came by the daemon
  ActorId actor = {};                           // the process actor that it hosted or was constructing
  std::int32_t actor_restarts = 0;              // and that actor's restarts then
  std::vector<std::pair<ProcessId, std::uint64_t>> begun_beyond = {};
};
struct NodeDied { std::uint32_t node = 0; std::string node_id, reason; };
/// What a daemon's link to another node is. kUnknown: no view has named the node, so it was never dialled.
enum class LinkState : std::uint8_t { kDown, kUp, kUnknown };
struct LinkReport { std::uint32_t node = 0; LinkState state = LinkState::kDown; std::string why; };
struct Congestion { ProcessId process; bool clogged = false; };

// --------------------------------------------------------------------------------------------------------------- store

/// `ahead`: of need; refused instead of queued when there is no room.
struct StoreLeaseRequest { std::uint64_t bytes = 0; std::uint32_t slots = 0; bool ahead = false; };
/// `slots`: slot, generation. `tight`: others wait for memory; keep nothing for reuse.
struct StoreLeaseReply {
  std::uint64_t offset = 0, size = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> slots;
  std::uint32_t chunk = 0;
  bool tight = false;
};
/// The request with this token (kStoreLease, kStoreAllocate) is not waited for any more. It is still answered: with an
/// error, or by the grant that was on its way, which the client gives back.
struct StoreWithdraw { std::uint64_t token = 0; };
struct StoreAllocateRequest { std::uint64_t size = 0; };
struct StoreAllocateReply { std::uint32_t slot = 0, generation = 0; std::uint64_t offset = 0, size = 0; };
/// slots: maybe_free. chunks (names of leases) with how many buffers of each the daemon frees or has freed, and unused
/// slots: give_back.
struct StoreFree {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> slots;
  std::vector<std::uint64_t> chunks;
  std::vector<std::uint32_t> chunk_shared, unused_slots;
};
struct StoreFetchRequest { BufferDesc buffer; };
struct StoreFetchReply { BufferDesc local; };
/// `holder` (a process of another node) pins these buffers here until it says otherwise or dies.
struct StoreHoldRequest { ProcessId holder; std::vector<BufferDesc> buffers; };
struct StoreUsageReply { std::uint64_t capacity = 0, used = 0, spilled = 0, objects = 0; };

// -------------------------------------------------------------------------------------------------------------- actors

/// Names what is kept for an actor beyond the process that gave it: its constructor's arguments (number 0) or a
/// checkpoint.
struct KeptName {
  ActorId actor; std::int32_t restarts = 0; std::uint64_t number = 0;
  auto operator<=>(const KeptName&) const = default;
};
struct KeepRequest { KeptName name; std::vector<BufferDesc> buffers; };
/// The same buffers in the same order, as they are called at the daemon that answers.
struct KeepReply { std::vector<BufferDesc> buffers; };
/// A ref inside something that is kept, by its value.
struct KeptRef { ObjectId id; ValueDesc value; };

/// The creation record: what is needed to construct an actor, again and again.
struct ActorSpec {
  ActorId id;
  JobId job = 0;
  ProcessId creator;
  std::uint32_t constructor = 0;                // index in the registry
  std::string class_name;
  ValueDesc arguments;                          // tuple of the constructor's parameters, refs resolved
  std::string name, name_space;
  bool get_if_exists = false;
  Lifetime lifetime = Lifetime::kScoped;
  Resources resources;
  std::int32_t max_restarts = 0;
  Duration restart_window = std::chrono::seconds(60);
  Backoff restart_backoff;
  std::int32_t max_task_retries = 0, max_concurrency = 1, threads = 1;
  std::map<std::string, int> concurrency_groups;
  bool out_of_order = false;
  std::int32_t max_pending_calls = -1;
  Isolation isolation = Isolation::kProcess;
  Duration checkpoint_every = Duration::zero();
  Scheduling scheduling;
  LabelSelector labels;
  RuntimeEnv env;
  std::vector<ValueDesc> dependencies;          // values of the refs among the arguments, in their order
  std::vector<KeptRef> refs = {};               // restartable, detached: of refs inside the arguments that were ready
};
struct CreateActorReply { HandleDesc handle; bool existed = false; };
/// Where a light actor lives that was made in its host directly, as somebody knows who has a handle of it: the host
/// may be long in telling. No host: another actor, or not known.
struct LightHome { ProcessId host; JobId job = 0; std::string class_name; };
struct ResolveActor { ActorId actor; LightHome home = {}; };
enum class ActorState : std::uint8_t { kPending = 0, kAlive = 1, kRestarting = 2, kDead = 3 };
struct ActorLocation {
  ActorId actor;
  ActorState state = ActorState::kPending;
  ProcessId process;                            // kAlive
  std::int32_t restarts = 0;
  std::optional<ErrorRecord> error;             // kDead: what calls fail with; kRestarting: why it died
};
struct NamedActor { std::string name, name_space; };
struct NamedActorReply { HandleDesc handle; };
struct KillActor { ActorId actor; bool restart = false; LightHome home = {}; };
struct ActorStarted { ActorId actor; std::int32_t restarts = 0; ProcessId process; std::int32_t pid = 0; };
struct ActorExited {
  ActorId actor; std::int32_t restarts = 0; ProcessId process; DeathCause cause = DeathCause::kFinished;
  std::string message; std::optional<ErrorRecord> error;
};
/// `begun`: actors that the holder is about to create, as soon as their arguments are there; one that it drops before
/// it will not come.
struct HandleCounts { ProcessId holder; std::vector<ActorId> held, dropped; std::vector<ActorId> begun = {}; };
/// State after a checkpoint, with the table of idempotency keys whose replies are in it.
/// It comes again with the same number when values of more of its refs are there.
struct Checkpoint {
  ActorId actor; std::int32_t restarts = 0; std::uint64_t number = 0; ValueDesc state; std::vector<std::byte> keys;
  std::vector<KeptRef> refs = {};
};
struct ConstructActor {
  ActorSpec spec;
  std::int32_t restarts = 0;
  std::optional<Checkpoint> checkpoint;
  std::vector<int> gpu_ids;
};
/// `image_at`: a living node whose daemon has the image of the actor's job.
struct StartActor {
  ActorSpec spec;
  std::int32_t restarts = 0;
  std::optional<Checkpoint> checkpoint;
  std::uint32_t image_at = 0;
};
struct StartActorFailed { ActorId actor; std::int32_t restarts = 0; ErrorRecord error; bool retry_elsewhere = true; };
/// `unheard`: its host has not told of it yet, so that its construction may come after this. `restarts`: which of its
/// lives; -1: all.
struct EndActor {
  ActorId actor; DeathCause cause = DeathCause::kKilled; std::string message; bool unheard = false;
  std::int32_t restarts = -1;
};
/// Light actors that live in `process` (alive) or have ended there.
struct LightActors {
  ProcessId process;
  JobId job = 0;
  std::string class_name, name_space;
  std::vector<ActorId> started;
  std::vector<ActorId> ended;
};

// -------------------------------------------------------------------------------------------------- nodes, jobs, state

struct NodeInfo {
  std::uint32_t node = 0;
  std::string node_id, state, address;          // address: HOST:PORT of its control link
  std::string data_address;
  bool is_head = false;
  std::map<std::string, double> resources, available;   // "CPU", "GPU", "memory", custom
  std::map<std::string, std::string> labels;
  std::int32_t pid = 0;
  std::uint64_t pending = 0;                    // lease requests that wait there
  double gpu_pieces = 0;                        // of the available GPUs: what one request cannot have beside the rest
};
/// A daemon that comes back after a lost link gives the number, id and cluster that it had: the head takes it back
/// while it has not declared the node dead, and refuses it (UnauthenticatedError) otherwise: the daemon must then end
/// (fencing).
struct RegisterNode {
  NodeInfo info;
  std::string session_dir;
  std::string cluster_id = {};
  std::uint64_t head_epoch = 0;
};
struct RegisterNodeReply { std::uint32_t node = 0; std::string node_id, cluster_id; std::uint64_t head_epoch = 0; };
/// starts_seen: how many StartActor notices the daemon had from the head when it measured `available`.
struct NodeLoad {
  std::uint32_t node = 0; std::uint64_t version = 0; std::map<std::string, double> available; std::uint64_t pending = 0;
  std::uint64_t starts_seen = 0;
  double gpu_pieces = 0;
};
struct ClusterView {
  std::uint64_t version = 0;
  bool full = false;
  std::vector<NodeInfo> nodes;
  std::vector<std::uint32_t> dead;
};
struct ClusterInfo { std::vector<NodeInfo> nodes; std::string cluster_id; };
struct RegisterJob {
  ProcessId driver;
  std::int32_t driver_pid = 0;
  std::string name_space;
  Image image;
  std::string registry_digest;
};
struct RegisterJobReply { JobId job = 0; std::string name_space; };
struct JobImageRequest { JobId job = 0; };
struct JobImageReply { JobId job = 0; ProcessId driver; std::string name_space, registry_digest; Image image; };
struct JobFinished { JobId job = 0; ProcessId driver; std::int32_t exit_code = 0; std::string reason; };
/// All processes of the job end, but for those that host (or construct) an actor that outlives it.
struct JobEnded {
  JobId job = 0;
  std::string reason;
  std::vector<ProcessId> keep_processes = {};
  std::vector<ActorId> keep_actors = {};
};
struct JobOutput { JobId job = 0; };
struct LogLines { std::string prefix; std::vector<std::string> lines; bool is_error = false; };

struct KvKey { std::string key; };
struct KvEntry { std::string key, value; };
struct KvValue { std::optional<std::string> value; };
/// Puts the value where what is there is the expected one (none: nothing).
struct KvSwap { std::string key; std::optional<std::string> expected; std::string value; };
struct KvDeleted { bool deleted = false; };
struct KvKeyList { std::vector<std::string> keys; };

enum class StateKind : std::uint8_t {
  kNodes,
  kActors,
  kTasks,
  kObjects,
  kWorkers,
  kJobs,
  kPlacementGroups,
  kStores,
  kMetrics
};
struct StateQuery {
  StateKind kind = StateKind::kNodes;
  std::map<std::string, std::string> filter = {};
  std::int64_t limit = -1;
  JobId job = 0;
};
using StateRow = std::map<std::string, std::string>;
/// Rows as name -> text; nested maps are JSON text. `total`: how many match the filter, also those that the limit cut
/// off.
struct StateReply { std::vector<StateRow> rows = {}; std::vector<std::string> warnings = {}; std::uint64_t total = 0; };

struct MetricPoint { std::string name, kind; std::vector<double> bounds, values; };
struct MetricsReport { ProcessId process; std::vector<MetricPoint> points; };

}  // namespace troupe::wire
