// StraySweep: ends what a dead worker has left behind: whatever carries its mark, also out of its process group
// (launcher/strays.h). A pass is repeated until it finds nothing: those that are hit may have had children.
//
// Thread rule: the loop's thread. Cost: one pass over /proc for all that died within kStrayDelay.
#pragma once
#include <cstdint>
#include <set>
#include <string>

#include "core/node/base/loop.h"

namespace troupe::node {

class StraySweep {
 public:
  /// `prefix`: of the marks of this node's processes.
  StraySweep(Loop& loop, std::string prefix) : loop_(loop), prefix_(std::move(prefix)) {}
  void add(std::uint32_t serial);

 private:
  void plan();
  void sweep();

  Loop& loop_;
  const std::string prefix_;
  std::set<std::uint32_t> serials_;
  bool planned_ = false;
};

}  // namespace troupe::node
