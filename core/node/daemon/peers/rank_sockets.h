// RankSockets: connections of ranks of collective groups that come to this daemon's data port go to the processes that
// expect them. HandOvers decides; this part passes the sockets on, and wakes at the deadlines.
//
// Thread rule: the loop's thread.
#pragma once
#include <optional>

#include "core/base/fd.h"
#include "core/node/base/loop.h"
#include "core/node/base/process_table.h"
#include "core/node/daemon/peers/hand_overs.h"

namespace troupe::node {

class RankSockets {
 public:
  RankSockets(Loop& loop, ProcessTable& table);

  /// A connection and its introduction, which nobody has checked yet: HandOvers does (HOV-1).
  void arrived(const net::Introduction& who, UniqueFd connection);
  void expect(ProcessId owner, const wire::ExpectRanks& ranks);
  void left(ProcessId owner, const wire::RankLeft& rank) { hand_overs_.left(owner, rank); }
  void process_died(ProcessId process) { hand_overs_.process_died(process); }
  wire::RankDoor state() const { return hand_overs_.door(); }

 private:
  void pass_on(HandOvers::Passed passed);
  void settle();

  Loop& loop_;
  ProcessTable& table_;
  HandOvers hand_overs_;
  std::optional<Loop::TimerId> timer_;
};

}  // namespace troupe::node
