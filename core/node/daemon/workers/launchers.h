// Launchers: one process for each job that forks its workers (launcher/launcher.h), started at the first fork.
//
//   none --start()--> started --LauncherReady--> ready --its socket closes--> none; kLauncherFailuresMax: given up
//
// Thread rule: the loop's thread.
//
// Invariants
//   NDF-1  A job has at most one launcher. A registry digest that is not the driver's gives the job up at once, with
//          the reason.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/node/base/packet_channel.h"
#include "core/node/daemon/base/config.h"
#include "core/node/daemon/base/jobs.h"
#include "core/node/daemon/local/node.h"

namespace troupe::node {

inline constexpr int kLauncherFailuresMax = 3;

class Launchers {
 public:
  /// What launchers report.
  struct Events {
    std::function<void(const wire::Forked&)> forked;
    std::function<void(const wire::Exited&)> exited;
    std::function<void(std::uint32_t launcher, JobId job, const std::string& log_tail)> gone;
  };
  /// Who the node is, for marks and messages.
  struct Node {
    std::string session_name, session_dir, node_name, node_id;
    std::uint32_t node = 0;
  };
  /// `local`: launchers are threads of this process; null: processes.
  Launchers(Loop& loop, Jobs& jobs, Node node, LocalNode* local, Events events)
      : loop_(loop), jobs_(jobs), node_(std::move(node)), local_(local), events_(std::move(events)) {}

  /// The launcher of a job, started where there is none; 0: it cannot be started, problem() may say why.
  std::uint32_t of(Job& job);
  bool running(JobId job) const { return by_job_.contains(job); }
  void fork(std::uint32_t launcher, const wire::ForkRequest& request, std::vector<UniqueFd> fds);

  /// A worker of this job became ready, or ended before it was.
  void worker_ready(JobId job) { failures_.erase(job); }
  void worker_failed(JobId job) { ++failures_[job]; }
  bool given_up(JobId job) const;
  /// Why none will be started any more; empty when that is not known.
  std::string problem(JobId job) const;
  void forget_job(JobId job);
  void kill_all();

 private:
  struct Launcher {
    JobId job = 0;
    int pid = 0;
    std::unique_ptr<PacketChannel> channel;
    bool ready = false;
    std::string log_file;
  };
  bool start_process(Job& job, std::uint32_t id, Launcher& launcher, const UniqueFd& socket);
  void on_packet(std::uint32_t id, const BootPacket& packet);
  void on_ready(Launcher& launcher, const wire::LauncherReady& ready);
  void on_closed(std::uint32_t id);

  Loop& loop_;
  Jobs& jobs_;
  const Node node_;
  LocalNode* const local_;
  const Events events_;
  std::map<std::uint32_t, Launcher> launchers_;
  std::map<JobId, std::uint32_t> by_job_;
  std::map<JobId, int> failures_;            ///< in a row
  std::map<JobId, std::string> problems_;
  std::uint32_t next_ = 1;
};

}  // namespace troupe::node
