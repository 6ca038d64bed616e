// TestCluster: a head and several daemons on this machine, as child processes of the caller, in one session folder.
//
// Thread rule: one thread at a time.
//
// Invariants
//   TC-1  When it is destroyed nothing of it is alive and its session is clean (as RO-1).
//   TC-2  When its process is killed, head and daemons see it by pidfd and do the same (as RO-2).
//   TC-3  A head that is started again is the one that was killed (head/service/server.h, HSV-4), within the time for
//         which the nodes look for it (daemon/peers/membership.h, kRedialHead).
//   TC-4  A node that is killed dies as a machine does: all of it is stopped before the first process ends, so that
//         none tells anybody of another's end.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/node/daemon/base/config.h"
#include "core/node/session/session.h"
#include <troupe/result.h>

namespace troupe::node {

class TestCluster {
 public:
  static Result<std::unique_ptr<TestCluster>> start(const std::vector<NodeOptions>& nodes,
                                                    const std::string& session_root = {});
  ~TestCluster();

  Result<std::size_t> add_node(const NodeOptions& options);
  std::size_t size() const { return nodes_.size(); }
  const std::string& address() const { return address_; }
  const std::string& session_dir() const { return session_.dir; }
  const ReadyReport& node(std::size_t index) const { return nodes_.at(index).process.report; }
  std::vector<int> pids(std::size_t index) const;  ///< the daemon's first
  void kill_node(std::size_t index);  ///< TC-4
  void stop_node(std::size_t index);
  /// Sends it to all, again until all have it.
  void signal_node(std::size_t index, int signal);
  void kill_head();
  /// TC-3
  Status restart_head();

 private:
  struct Node { RoleProcess process; std::string mark; bool gone = false; };
  TestCluster() = default;
  Status start_head(int port);
  Result<Node> start_daemon(const NodeOptions& options);
  void end_process(RoleProcess& process, Duration grace);

  Session session_;
  RoleProcess head_;
  std::string address_;
  std::vector<Node> nodes_;
};

}  // namespace troupe::node
