// Executors: where the calls of a process run. A real process has threads and fibers (executor_threads.h); the
// simulator has model functions that take a while. Host and HostedActor decide what runs and when, and know nothing of
// how.
#pragma once
#include <functional>

#include "core/executor/incoming.h"

namespace troupe::worker {

class HostedActor;

class Executors {
 public:
  virtual ~Executors() = default;

  // ---- lock held
  /// Host::next_work has something.
  virtual void work_queued() = 0;
  /// May tasks begin here? Not while the main thread belongs to fibers (HO-4).
  virtual bool takes_tasks() const = 0;
  /// An actor begins to live here: its own threads, if it asked for any.
  virtual void start_threads(HostedActor& actor) = 0;
  /// Runs `work` on one of the actor's threads or fibers, in the order of these calls.
  virtual void post(HostedActor& actor, std::function<void()> work) = 0;
  /// Runs `work` beside whatever else runs here, on a thread of its own.
  virtual void run_beside(std::function<void()> work) = 0;
  /// The process ends: what has been posted is done, nothing is waited for.
  virtual void stop() = 0;
  /// Ends this process as SIGKILL does.
  virtual void kill_process() = 0;

  // ---- lock not held
  /// Runs one call between Host::begin_run and Host::end_run. `actor`: null for tasks.
  virtual void run(const IncomingPtr& call, HostedActor* actor) = 0;
  /// Waits for the actor's own threads. It is only named: it may be gone, and then so are they.
  virtual void join_threads(const HostedActor* actor) = 0;
};

}  // namespace troupe::worker
