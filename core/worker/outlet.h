// Outlet: what a simulated process has in place of rings, the daemon's socket, the clock, chance, and executor threads.
//
// Core::simulate makes a core whose parts are the real ones, but which has no endpoint, no store, no service thread and no
// executor: its frames leave by send, its time is now(), and the calls that arrive to be run are handed to run. The simulator
// gives it frames (Core::on_message), time (Core::step) and the ends of calls (Host::end_run).
//
// Thread rule: one thread; called with the core's lock held, but for run.
#pragma once
#include "core/exec/waiter.h"
#include "core/net/frame.h"
#include "core/worker/incoming.h"

namespace troupe::worker {

struct HostedActor;

class Outlet {
 public:
  virtual ~Outlet() = default;

  // ---- as net::Endpoint has them
  virtual bool send(ProcessId peer, const net::FrameHeader& header, ByteView payload) = 0;
  virtual bool attached(ProcessId peer) const = 0;
  virtual void set_begun(ProcessId peer, std::uint64_t number) = 0;
  virtual std::uint64_t begun(ProcessId peer) const = 0;
  virtual void drain_and_close(ProcessId peer) = 0;

  // ---- time and chance
  virtual exec::Deadline now() const = 0;
  virtual double chance() = 0;  ///< uniform in [0, 1)

  // ---- the process
  /// A call is to be run: Host::begin_run, whatever takes time, Host::end_run. Without the lock.
  virtual void run(const IncomingPtr& call, HostedActor* actor) = 0;
  /// Timers, callbacks or work were added: step() and run_one() are wanted.
  virtual void wake() = 0;
  /// The process kills itself (a forced cancel) or ends in order.
  virtual void end_process(bool killed) = 0;
};

}  // namespace troupe::worker
