// Option structs of tasks, actors, placement: plain aggregates for designated initializers, each member with a default.
// They are also what is sent, so their members are serializable, but for the retry predicate, which stays with the
// submitter.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <troupe/duration.h>
#include <troupe/error.h>

namespace troupe {

/// What a task needs while it runs, or an actor while it lives. Unset cpus: 1 for a task, 0 for an actor and in a
/// bundle.
struct Resources {
  double cpus = kUnset;
  double gpus = 0;
  std::uint64_t memory = 0;  ///< bytes
  std::map<std::string, double> custom = {};
  bool operator==(const Resources&) const = default;
};

/// Delays between attempts: initial * factor^n, at most max, each spread by +- jitter of itself.
struct Backoff {
  Duration initial = std::chrono::milliseconds(50);
  double factor = 2;
  Duration max = std::chrono::seconds(10);
  double jitter = 0.2;
  bool operator==(const Backoff&) const = default;
};

struct RetryPolicy {
  /// the worker or its node died; shared with approved application errors
  int max_retries = 3;
  int max_oom_retries = kNoLimit;                  ///< killed by the memory monitor
  bool (*retry_error)(const TaskError&) = nullptr; ///< application errors to retry; none unless this says so
  Backoff backoff = {};
};

struct RuntimeEnv {
  std::map<std::string, std::string> env_vars = {};
  std::string working_dir = {};
  bool operator==(const RuntimeEnv&) const = default;
};

// Where to run. Hybrid packs nodes up to half of their load, then spreads; Spread goes round all feasible nodes.
struct Hybrid { bool operator==(const Hybrid&) const = default; };
struct Spread { bool operator==(const Spread&) const = default; };
struct NodeAffinity {
  std::string node_id = {};
  bool soft = false;
  bool operator==(const NodeAffinity&) const = default;
};
/// A bundle of a placement group; index kAny: any of its bundles.
struct Bundle {
  static constexpr std::int32_t kAny = -1;
  std::string group_id = {}; std::int32_t index = kAny;
  bool operator==(const Bundle&) const = default;
};
using Scheduling = std::variant<Hybrid, Spread, NodeAffinity, Bundle>;

/// Label values to match: "v", "!v", "in(a,b)", "!in(a,b)"; all must hold.
struct LabelSelector {
  std::map<std::string, std::string> match = {};
  bool operator==(const LabelSelector&) const = default;
};

struct TaskOptions {
  std::string name = {};
  Resources resources = {};
  Scheduling scheduling = {};
  LabelSelector labels = {};
  RetryPolicy retry = {};
  /// from its first sending to its end; then cancelled with DeadlineExceededError
  Duration timeout = kForever;
  std::string idempotency_key = {};     ///< generators: InvalidArgumentError, their items are not kept
  RuntimeEnv env = {};
  /// Generators: at most so many items ahead of the reader (0 = 64), and no more when they fill an eighth of the store.
  std::uint32_t stream_buffer = 0;
};

enum class Lifetime : std::uint8_t { kScoped, kDetached };
enum class Isolation : std::uint8_t { kProcess, kLight };

struct ActorOptions {
  std::string name = {}, name_space = {};
  bool get_if_exists = false;
  Lifetime lifetime = Lifetime::kScoped;
  Resources resources = {};                        ///< held while it lives
  int max_restarts = 0;
  Duration restart_window = std::chrono::seconds(60);  ///< more than max_restarts within it: dead for good
  Backoff restart_backoff = {};
  int max_task_retries = 0;                        ///< of its calls, on death of the actor
  int max_concurrency = 1;                         ///< fibers at once in each thread
  int threads = 1;                                 ///< threads x max_concurrency calls open at once
  std::map<std::string, int> concurrency_groups = {};
  bool out_of_order = false;
  int max_pending_calls = kNoLimit;
  Isolation isolation = Isolation::kProcess;
  Duration checkpoint_every = Duration::zero();
  Scheduling scheduling = {};
  LabelSelector labels = {};
  RuntimeEnv env = {};
};

struct CallOptions {
  std::string concurrency_group = {};
  int max_retries = -2;                            ///< -2: the actor's max_task_retries; kNoLimit: no limit
  Duration timeout = kForever;
  std::string idempotency_key = {};                ///< generators: InvalidArgumentError, their items are not kept
  std::string name = {};
};

/// copies above 1: InvalidArgumentError, no second copy is kept on another node.
struct PutOptions { int copies = 1; };
struct GetOptions { Duration timeout = kForever; };
/// fetch_local: an object is ready when its memory is on this node too (or is lost); else when its owner has it.
struct WaitOptions { std::size_t num_returns = 1; Duration timeout = kForever; bool fetch_local = true; };
struct CancelOptions { bool force = false; bool recursive = true; };
struct KillOptions { bool restart = false; };
struct NameOptions { std::string name_space = {}; };

/// How an actor ended for good.
enum class DeathCause : std::uint8_t {
  kFinished,
  kKilled,
  kCrashed,
  kOutOfMemory,
  kNodeDied,
  kConstructorFailed,
  kJobEnded
};
struct ActorDeath {
  DeathCause cause = DeathCause::kFinished;
  std::string message, node;
  int pid = 0, restarts = 0;
};

struct RunOptions {
  /// HOST:PORT or a file that holds it; empty: an embedded one-node cluster
  std::string address = {};
  bool local = false;                              ///< everything in one process, on threads
  double cpus = kUnset;                            ///< default: the machine's
  double gpus = kUnset;
  std::map<std::string, double> resources = {};
  std::uint64_t object_store_memory = 0;           ///< bytes; 0: 30 % of memory
  std::string name_space = {};
  std::map<std::string, std::string> labels = {};
  std::string log_level = {};
  Duration shutdown_grace = std::chrono::seconds(10);
  int max_suspended_workers = 512;
  std::uint64_t stack_size = 1 << 20;              ///< of fibers, bytes
  /// bytes that open calls of one process may take before `remote` waits; 0: 25 % of memory
  std::uint64_t call_memory = 0;
  /// bytes of the rings between processes of this node; above it their calls go by the daemon; 0: 64 MiB
  std::uint64_t ring_memory = 0;
};

}  // namespace troupe
