// Dispatcher: what comes out of the rings, given to the part that it is for.
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
  void on_control(const net::FrameHeader& header, ByteView payload);
  void on_request(const net::FrameHeader& header, ByteView payload);
  void on_notice(const net::FrameHeader& header, ByteView payload);
  void on_process_died(const wire::ProcessDied& died);
  void on_node_died(const wire::NodeDied& died);

  Core& core_;
};

}  // namespace troupe::worker
