// LightHosts: the processes of this node that host light actors, asked of the daemon when one is made and none is
// known, and which of them the next light actor goes to.
//
//   place --no host is known--> waits --the daemon's answer--> placed, in order of their making
//                                                    `--none--> dead
//
// Thread rule: lock held.
#pragma once
#include <vector>

#include "core/caller/actor_client.h"

namespace troupe::worker {

class LightHosts {
 public:
  explicit LightHosts(Runtime& runtime) : runtime_(runtime) {}

  void place(detail::Ptr<ActorClient> actor);
  void process_died(ProcessId process);
  /// Forgets who waits, when the process is taken apart.
  void clear() { without_host_.clear(); }

 private:
  void place_all();
  void answered(const Result<wire::LightHostReply>& reply);

  Runtime& runtime_;
  std::vector<ProcessId> hosts_;
  std::vector<detail::Ptr<ActorClient>> without_host_;
  std::size_t next_ = 0;
  bool asked_ = false;
};

}  // namespace troupe::worker
