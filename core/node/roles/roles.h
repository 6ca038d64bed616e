// The roles of a Troupe executable beside driver, and the handles by which a driver or a command starts and ends them.
//
// One executable is enough for an embedded cluster: daemon, head and launchers are this very executable, started with
// the environment variable TROUPE_INTERNAL_ROLE and an inherited descriptor; `run` hands over to enter_internal_role at
// its first line, and in such a process it never returns.
//
//   driver --exec--> daemon (own session) --exec--> head
//                       `----exec--> launcher --fork--> workers
//
// Thread rule: start and stop functions may be called from any thread, one at a time for one handle. A handle's owner
// thread does not matter: nothing is tied to it by PR_SET_PDEATHSIG.
//
// Invariants
//   RO-1  When Embedded::stop (or its destructor) returns, no process that the embedded cluster started is alive, and
//         of its session folder only logs and event history are left.
//   RO-2  The same holds within 5 s when driver, daemon or head is killed, without anybody's help: daemon and head
//         watch the process that they serve by pidfd. The folder is cleaned by the daemon while its head runs, or by
//         the head once the daemon has ended; both wait for a driver that is dying and still holds the session's lock.
//   RO-3  enter_internal_role returns false in a process that is none of ours, without any side effect.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/node/base/node_options.h"
#include "core/node/base/role_hooks.h"
#include <troupe/options.h>
#include <troupe/result.h>

namespace troupe::node {

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
/// Errors: InvalidArgumentError (unwritable or foreign session root, bad resources), RuntimeEnvError (did not start in
/// time; the message carries the last lines of the logs).
[[nodiscard]] Result<Embedded> start_embedded(const EmbeddedOptions& options);

/// Finds the unix socket of the local daemon of the cluster at `address` (HOST:PORT, a file that holds it, or such a
/// socket): what a driver on a machine with a running node connects to. Where several nodes of the cluster run here,
/// the one that was started first; the socket names another. NotFoundError when no session of this user serves that
/// address.
[[nodiscard]] Result<std::string> find_local_daemon(const std::string& address, const std::string& session_root = {});

/// The same cluster as threads of this process (daemon/local/node.h). env_vars and working_dir of its workers are
/// RuntimeEnvError.
[[nodiscard]] Result<Embedded> start_local(const EmbeddedOptions& options, const RoleHooks& hooks);

/// In a process of ours: runs its role and exits, never returns. Otherwise returns false at once. A forked worker comes
/// out of the launcher's loop by hooks.worker_main and then exits.
bool enter_internal_role(int argc, char** argv, const RoleHooks& hooks);
/// Would it?
bool is_internal_role();

// -------------------------------------------------------------------------------------------- for the `troupe` command

struct StartOptions {
  NodeOptions node = {};
  bool head = false;                                ///< also start a head here
  int port = 0;                                     ///< the head's control port
  std::string address = {};                         ///< join: HOST:PORT or a file that holds it
  std::string token_file = {};                      ///< join: of the cluster; empty: find_token
  std::string address_file = {};                    ///< head: written when ready
  std::string session_root = {};
  bool block = false;                               ///< stay in the foreground until a signal
  Duration ready_timeout = std::chrono::seconds(20);
};
struct StartedNode { std::string address, session_dir, socket_path, node_id; int daemon_pid = 0; };
[[nodiscard]] Result<StartedNode> start_node(const StartOptions& options);

struct StopOptions {
  std::string session_root = {};
  std::string address = {};                         ///< only nodes of this cluster; empty: of every one
  Duration grace = std::chrono::seconds(5);         ///< then what still runs is killed
};
struct StopReport { int daemons = 0; std::vector<std::string> sessions; };
/// Ends this user's detached nodes on this machine and waits until their processes are gone.
/// Errors: InvalidArgumentError when the folder of the sessions is not ours.
[[nodiscard]] Result<StopReport> stop_nodes(const StopOptions& options);

/// A cluster of which this user's nodes run on this machine.
struct LocalCluster {
  std::string address;
  int nodes = 0;          ///< here
  bool embedded = false;  ///< of one program, with which it ends
};
/// The newest first. Only those with a daemon that takes connections, and not those within one process
/// (--troupe-local).
[[nodiscard]] Result<std::vector<LocalCluster>> local_clusters(const std::string& session_root = {});
/// HOST:PORT from such an address, a file that holds one, or the socket of a daemon here.
[[nodiscard]] std::string cluster_address(const std::string& given, const std::string& session_root = {});

/// The token file of the cluster at `address` (HOST:PORT): TROUPE_TOKEN_FILE, else that of a node of it on this
/// machine. UnauthenticatedError says how to get it.
[[nodiscard]] Result<std::string> find_token(const std::string& address, const std::string& session_root = {});

}  // namespace troupe::node
