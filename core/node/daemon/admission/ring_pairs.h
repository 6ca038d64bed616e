// RingPairs: gives two processes of this node a pair of rings, so that their frames need not pass by the daemon.
//
//   kConnect --both alive, memory for the pair--> PairOffer to the peer, then to who asked, then the response
//       `--the peer is dead | no memory left (DaemonConfig::ring_memory)--> an error | "through the daemon"
//
// Thread rule: the loop's thread.
//
// Invariants
//   NDP-1  Both sides get their descriptors or none does; the response comes after the offer.
#pragma once
#include <cstdint>

#include "core/node/base/messenger.h"
#include "core/node/base/process_table.h"

namespace troupe::node {

class RingPairs {
 public:
  RingPairs(ProcessTable& table, Messenger& messenger, std::uint64_t memory)
      : table_(table), messenger_(messenger), memory_(memory) {}
  void connect(const net::FrameHeader& request, const wire::ConnectRequest& wanted);

 private:
  void refuse_unknown(const net::FrameHeader& request, ProcessId peer);

  ProcessTable& table_;
  Messenger& messenger_;
  const std::uint64_t memory_;
};

}  // namespace troupe::node
