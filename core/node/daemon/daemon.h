// Daemon: the life of a node: its head where it has one, its links and data port, its registration, and its end. What
// it does as a registered node is NodeParts.
//
//   starting --registered at the head, socket open--> serving --stop(), fenced, parent or head gone--> stopping--> exit
//
// Thread rule: the loop's thread (the process's main thread: launchers die with it). Link threads only post.
//
// Invariants
//   DA-3  Everything that this daemon started is dead before it exits.
#pragma once
#include <memory>
#include <string>

#include "core/base/fd.h"
#include "core/node/base/loop.h"
#include "core/node/base/role_hooks.h"
#include "core/node/daemon/base/config.h"
#include "core/node/daemon/peers/links.h"
#include "core/node/daemon/local/node.h"
#include "core/node/daemon/peers/membership.h"
#include "core/node/daemon/node_parts.h"
#include "core/node/daemon/peers/data_port.h"

namespace troupe::node {

class Daemon {
 public:
  /// `local`: daemon, head and workers are threads of this process.
  Daemon(DaemonConfig config, UniqueFd lifeline, std::shared_ptr<LocalNode> local = {});
  ~Daemon();
  /// Runs until the end; the process's exit code.
  int run();

 private:
  Status begin();
  Status start_head();
  Status open_links(const net::Token& token);
  void make_membership();
  Status serve(const wire::RegisterNodeReply& reply);
  void report_ready(const std::string& error);
  void watch_parent();
  void watch_lifeline();
  void on_child_signal();

  void stop(const std::string& reason);
  void driver_gone();
  void finish();
  void end_processes();
  void end_threads();

  /// null: processes. Shared with the launchers' threads, which may be left behind
  const std::shared_ptr<LocalNode> local_;
  DaemonConfig config_;
  UniqueFd lifeline_, session_lock_, parent_pidfd_, signals_;
  std::string session_name_, socket_path_, node_id_, link_address_, data_address_;
  std::uint32_t node_ = 0;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<DaemonLinks> links_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<NodeParts> parts_;         ///< null before the head has registered this node
  std::unique_ptr<DataPort> data_port_;     ///< ends before the store whose bytes its threads send
  RoleProcess head_;
  bool owns_head_ = false, stopping_ = false, driver_gone_ = false, ready_ = false;
};

/// Role "daemon".
int daemon_main(const RoleHooks& hooks);

}  // namespace troupe::node
