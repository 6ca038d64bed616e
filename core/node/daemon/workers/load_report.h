// LoadReport: tells the head what is free on this node, what waits, and how many actor starts it has seen; when that
// changes, at most every kLoadEvery.
//
// Thread rule: the loop's thread.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "core/node/base/loop.h"
#include "core/node/base/messenger.h"
#include "core/node/daemon/workers/actor_starts.h"
#include "core/node/daemon/workers/leases.h"

namespace troupe::node {

class LoadReport {
 public:
  LoadReport(Loop& loop, Messenger& messenger, const Leases& leases, const ActorStarts& starts, std::uint32_t node)
      : loop_(loop), messenger_(messenger), leases_(leases), starts_(starts), node_(node) {}

  /// Something may have changed.
  void plan();
  void send();

 private:
  struct Load {
    std::map<std::string, double> available;
    std::uint64_t pending = 0, starts = 0;
    double gpu_pieces = 0;
    bool operator==(const Load&) const = default;
  };
  Load load() const;

  Loop& loop_;
  Messenger& messenger_;
  const Leases& leases_;
  const ActorStarts& starts_;
  const std::uint32_t node_;
  Load last_;
  std::uint64_t version_ = 0;
  bool planned_ = false;
};

}  // namespace troupe::node
