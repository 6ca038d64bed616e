// LightHosts: the processes that share their threads between light actors: one for each CPU of the node and job, made
// at the first request for them.
//
//   kLightHost --ensure(): idle workers, or forks--> waiting --all are alive or failed--> answered
//
// Thread rule: the loop's thread.
//
// Invariants
//   NDH-1  Each request is answered once: by the hosts that are alive, or by an error when none could be started or the
//          job ended.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "core/node/base/messenger.h"
#include "core/node/base/process_table.h"
#include "core/node/daemon/workers/workers.h"

namespace troupe::node {

inline constexpr int kLightHostsMax = 16;

class LightHosts {
 public:
  /// `settled`: no host of this job is starting any more; actors that waited for one can be placed.
  LightHosts(ProcessTable& table, Messenger& messenger, Jobs& jobs, Workers& workers, double cpus,
             std::function<void(JobId)> settled);

  void request(const net::FrameHeader& request, const wire::LightHostRequest& wanted);
  /// A host of this job became ready, failed or died.
  void changed(JobId job);
  void job_ended(JobId job);

 private:
  ProcessTable& table_;
  Messenger& messenger_;
  Jobs& jobs_;
  Workers& workers_;
  const int hosts_max_;
  const std::function<void(JobId)> settled_;
  std::map<JobId, std::vector<net::FrameHeader>> waiting_;
};

}  // namespace troupe::node
