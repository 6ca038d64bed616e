// What lies around the runtime of one process, as small interfaces: time, the transport of frames, the service thread.
//
// A real process implements them with the operating system's clock, rings in shared memory and a thread (core/process);
// the simulator with a model. No part of the runtime knows which.
#pragma once
#include "core/base/ids.h"
#include "core/exec/waiter.h"
#include "core/net/base/frame.h"
#include "core/net/ring/begun.h"
#include <troupe/duration.h>

namespace troupe::worker {

/// Time and chance. Thread rule: any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual exec::Deadline now() const = 0;
  /// Uniform in [0, 1).
  virtual double chance() = 0;
  /// now + timeout, saturated.
  exec::Deadline deadline_after(Duration timeout) const {
    const exec::Deadline from = now();
    if (timeout <= Duration::zero()) return from;
    return exec::kNever - from <= timeout ? exec::kNever : from + timeout;
  }
};

/// How frames leave this process, peer by peer; and how far a peer has come with our calls (net::Endpoint says more).
/// Thread rule: any thread; drain_and_close without the lock.
class Transport {
 public:
  virtual ~Transport() = default;
  /// False when the peer is not attached.
  virtual bool send(ProcessId peer, const net::FrameHeader& header, ByteView payload) = 0;
  virtual bool attached(ProcessId peer) const = 0;
  /// Bytes that wait in this process for room in the peer's ring; 0 when it is not attached.
  virtual std::size_t backlog(ProcessId peer) const = 0;
  /// As receiver: call number `number` of this peer begins now.
  virtual void set_begun(ProcessId peer, std::uint64_t number) = 0;
  /// As sender: which of our calls this peer has begun.
  virtual net::BegunCalls begun(ProcessId peer) const = 0;
  /// A dead peer: what it had published is delivered, then its ring is closed.
  virtual void drain_and_close(ProcessId peer) = 0;
};

/// The thread that runs timers and callbacks. Thread rule: any thread.
class ServiceThread {
 public:
  virtual ~ServiceThread() = default;
  /// Timers or callbacks were added.
  virtual void wake() noexcept = 0;
  /// Buffers were dropped: the store's client is to be flushed soon, by the service thread if nobody else does it
  /// before.
  virtual void flush_soon() noexcept = 0;
  /// May the calling thread not wait for what the service thread does, because it is that thread?
  virtual bool is_this_thread() const noexcept = 0;
};

struct Surroundings {
  Clock& clock;
  Transport& transport;
  ServiceThread& service;
};

}  // namespace troupe::worker
