// On which nodes a job's image is known: a daemon that starts an actor asks another one for it (wire::StartActor).
//
//   ran ----> listed --- the node is dead, or the job is over there ----> forgotten
//
// Where an actor of the job has got a process, the daemon has the image, and keeps it until it hears JobEnded with
// nothing to keep. The head itself keeps none: an image is the driver's environment, too, and its secrets stay on nodes
// that run the job.
//
// Pure and of one thread.
//
// Invariants
//   JN-1  find() is a node on which an actor of the job has run, and which was not said to be dead, nor is the one that
//         asks; 0 when there is none.
//   JN-2  Memory is bounded by living nodes times jobs that are not over.
#pragma once
#include <cstdint>
#include <iterator>
#include <map>
#include <set>

#include "core/base/ids.h"

namespace troupe::head {

class JobNodes {
 public:
  void ran(JobId job, std::uint32_t node) { nodes_[job].insert(node); }
  std::uint32_t find(JobId job, std::uint32_t except = 0) const {
    auto at = nodes_.find(job);
    if (at == nodes_.end()) return 0;
    for (const std::uint32_t node : at->second)
      if (node != except) return node;
    return 0;
  }
  void node_died(std::uint32_t node) {
    for (auto at = nodes_.begin(); at != nodes_.end();) {
      at->second.erase(node);
      at = at->second.empty() ? nodes_.erase(at) : std::next(at);
    }
  }
  /// It has ended, and nothing of it is left.
  void over(JobId job) { nodes_.erase(job); }
  std::size_t jobs() const { return nodes_.size(); }

 private:
  std::map<JobId, std::set<std::uint32_t>> nodes_;  // no empty ones
};

}  // namespace troupe::head
