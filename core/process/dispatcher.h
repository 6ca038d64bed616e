// Dispatcher: what comes out of the rings, given to the part that it is for.
//
// Invariants
//   DSP-1  Between two processes whose ring is damaged nothing is awaited for ever: who sees it has its daemon end the
//          peer, if that is a worker (of two workers that both see it both go); else this process ends, if it is one.
//          One that cannot hear its daemon is over: a worker ends, a driver shuts down. Between two drivers there is
//          the warning alone.
//
// Thread rule: on whichever thread drains the rings, lock not held.
#pragma once
#include "core/net/endpoint/endpoint.h"
#include "core/wire/messages.h"

namespace troupe::worker {

class Core;

class Dispatcher {
 public:
  explicit Dispatcher(Core& core) : core_(core) {}

  void on_message(ProcessId from, const net::FrameHeader& header, ByteView payload);
  void on_broken(ProcessId peer, const ErrorPtr& why);

 private:
  void end_peer(ProcessId peer);
  void on_control(const net::FrameHeader& header, ByteView payload);
  void on_request(const net::FrameHeader& header, ByteView payload);
  void on_notice(const net::FrameHeader& header, ByteView payload);
  void on_process_died(const wire::ProcessDied& died);
  void on_node_died(const wire::NodeDied& died);

  Core& core_;
};

}  // namespace troupe::worker
