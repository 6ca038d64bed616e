// LocalNode: the roles of an embedded cluster as threads of the driver's process (local mode: debuggers, valgrind,
// sanitizers).
//
//   start_local --> daemon's thread --start_head--> head's thread
//                     `--start_launcher--> launcher's thread --ForkRequest--> a worker's thread, which starts its own
//
// Head, daemon, launcher's protocol and workers are the real ones. Three things differ: links stay in memory
// (links.h); a worker is ended by shutting its socket down, which is to it what SIGKILL is to a process
// (Process::cut_off, core/process/process.h); and its end is known when its thread has returned from user code. A
// thread that never does cannot be killed: its worker is declared dead all the same, what it may still touch in the
// store stays until it is over, and the end of the cluster leaves it behind.
//
// Thread rule: the daemon's thread, but for the constructor.
//
// Invariants
//   LN-1  No process is started, no signal sent, no disposition, mask or log of the program changed; workers run with
//         the signal mask of the thread that called start_local, all other threads take no signal.
//   LN-2  LA-1 holds: each Forked without error is followed by one Exited, when its thread has ended.
//   LN-3  join_launchers returns after kEndWait at the latest; it says how many workers it has left behind.
#pragma once
#include <signal.h>

#include <memory>
#include <thread>
#include <vector>

#include "core/node/daemon/base/config.h"
#include "core/node/daemon/local/links.h"
#include "core/node/base/role_hooks.h"

namespace troupe::node {

inline constexpr Duration kEndWait = std::chrono::seconds(2);

class LocalNode {
 public:
  /// `workers_mask`: the signals that workers block.
  LocalNode(RoleHooks hooks, const sigset_t& workers_mask);
  ~LocalNode();

  LinkOpener link_opener() const;
  /// What the roles' own threads do first. `log_level`: as the user gave it; where he gave none they speak from kWarn
  /// on.
  static void enter_thread(const std::string& name, const std::string& log_level);
  /// pid is 0.
  Result<RoleProcess> start_head(const HeadConfig& config, Duration ready_timeout = std::chrono::seconds(20));
  /// A launcher at the other end of this socket; ends when that is closed, and its workers with it.
  void start_launcher(UniqueFd socket);

  /// All launchers' sockets are closed. Returns how many workers still run user code.
  int join_launchers();
  /// The head was told to end.
  void join_head();

  /// A worker that was to end runs on: says so, once.
  void warn_of_left_behind(int count);

 private:
  struct Launcher;
  RoleHooks hooks_;
  sigset_t workers_mask_;
  std::shared_ptr<LocalSwitch> switch_ = std::make_shared<LocalSwitch>();
  std::thread head_;
  std::vector<std::unique_ptr<Launcher>> launchers_;
  bool warned_ = false;
};

}  // namespace troupe::node
