// The roles of a Troupe executable beside driver, and the handles by which a driver or a command starts and ends them.
//
// One executable is enough for an embedded cluster: daemon, head and launchers are this very executable, started with the
// environment variable TROUPE_INTERNAL_ROLE and an inherited descriptor; `run` hands over to enter_internal_role at its
// first line, and in such a process it never returns.
//
//   driver --exec--> daemon (own session) --exec--> head
//                       `----exec--> launcher --fork--> workers
//
// Thread rule: start and stop functions may be called from any thread, one at a time for one handle. A handle's owner
// thread does not matter: nothing is tied to it by PR_SET_PDEATHSIG.
//
// Invariants
//   RO-1  When Embedded::stop (or its destructor) returns, no process that the embedded cluster started is alive, and of its
//         session folder only logs and event history are left.
//   RO-2  The same holds within 5 s when driver, daemon or head is killed, without anybody's help: daemon and head watch the
//         process that they serve by pidfd.
//   RO-3  enter_internal_role returns false in a process that is none of ours, without any side effect.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/wire/messages.h"
#include <troupe/options.h>
#include <troupe/result.h>

namespace troupe::node {

/// What a node is made of; unset numbers are measured on this machine.
struct NodeOptions {
  double cpus = kUnset;
  double gpus = kUnset;
  std::uint64_t memory = 0;                         ///< bytes schedulable as "memory"; 0: the machine's
  std::map<std::string, double> resources = {};
  std::map<std::string, std::string> labels = {};
  std::uint64_t object_store_memory = 0;            ///< bytes; 0: 30 % of memory
  std::string log_level = {};
  std::uint64_t call_memory = 0;                    ///< bytes that open calls of one process may take; 0: 25 % of memory
  std::uint64_t ring_memory = 0;                    ///< bytes of all rings between processes of the node; 0: 64 MiB
  int max_suspended_workers = 512;
  std::uint64_t stack_size = 1 << 20;
  std::string bind = "127.0.0.1";
};

struct EmbeddedOptions {
  NodeOptions node = {};
  std::string session_root = {};                    ///< empty: TROUPE_SESSION_ROOT, else the temporary directory
  Duration ready_timeout = std::chrono::seconds(20);
};

/// An embedded one-node cluster. Ends with its handle (RO-1).
class Embedded {
 public:
  Embedded(Embedded&&) noexcept;
  Embedded& operator=(Embedded&&) noexcept;
  ~Embedded();

  const std::string& socket_path() const;           ///< the daemon's unix socket: connect, send Hello
  const std::string& session_dir() const;
  const std::string& address() const;               ///< HOST:PORT of the head
  int daemon_pid() const;

  /// Ends everything and waits for it: asks first, kills after `grace`. Idempotent.
  void stop(Duration grace = std::chrono::seconds(2));

  struct Impl;
  explicit Embedded(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

/// Makes the session folder and starts daemon and head from this executable; returns when the daemon takes connections.
/// Errors: InvalidArgumentError (unwritable or foreign session root, bad resources), RuntimeEnvError (did not start in time;
/// the message carries the last lines of the logs).
[[nodiscard]] Result<Embedded> start_embedded(const EmbeddedOptions& options);

/// Finds the unix socket of the local daemon of the cluster at `address` (HOST:PORT, a file that holds it, or such a socket): what a driver
/// on a machine with a running node connects to. NotFoundError when no session of this user serves that address.
[[nodiscard]] Result<std::string> find_local_daemon(const std::string& address, const std::string& session_root = {});

/// What a forked worker starts with. The socket speaks the bootstrap packets of wire/messages.h.
struct WorkerBoot {
  UniqueFd socket;
  std::uint32_t serial = 0;
  wire::ForkRequest request;
};

/// What the roles need to know from above.
struct RoleHooks {
  std::function<int(WorkerBoot)> worker_main;       ///< runs a worker; its return value is the exit code
  std::function<int(WorkerBoot)> local_worker_main; ///< the same on a thread (start_local); its wait status, as of a process
  std::string registry_digest;                      ///< of the functions registered in this executable
};

/// The same cluster as threads of this process (local_node.h). env_vars and working_dir of its workers are RuntimeEnvError.
[[nodiscard]] Result<Embedded> start_local(const EmbeddedOptions& options, const RoleHooks& hooks);

/// In a process of ours: runs its role and exits, never returns. Otherwise returns false at once. A forked worker comes out
/// of the launcher's loop by hooks.worker_main and then exits.
bool enter_internal_role(int argc, char** argv, const RoleHooks& hooks);
/// Would it?
bool is_internal_role();

// -------------------------------------------------------------------------------------------- for the `troupe` command

struct StartOptions {
  NodeOptions node = {};
  bool head = false;                                ///< also start a head here
  int port = 0;                                     ///< the head's control port
  std::string address = {};                         ///< join: HOST:PORT or a file that holds it
  std::string address_file = {};                    ///< head: written when ready
  std::string session_root = {};
  bool block = false;                               ///< stay in the foreground until a signal
  Duration ready_timeout = std::chrono::seconds(20);
};
struct StartedNode { std::string address, session_dir, socket_path, node_id; int daemon_pid = 0; };
[[nodiscard]] Result<StartedNode> start_node(const StartOptions& options);

struct StopReport { int daemons = 0; std::vector<std::string> sessions; };
/// Ends every detached node of this user below `session_root` and waits until its processes are gone.
[[nodiscard]] Result<StopReport> stop_nodes(const std::string& session_root = {}, Duration grace = std::chrono::seconds(5));

}  // namespace troupe::node
