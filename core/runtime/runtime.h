// Runtime: what the parts of a driver or worker process share. Owner, caller and executor are built on it and know
// nothing of each other but downwards; core/process puts them together.
//
//   who this process is     welcome, self, daemon
//   the lock                mutex, defer                      core_lock.h
//   time and chance         now, chance, timers, callbacks    surroundings.h, service_queue.h
//   frames                  frames, requests, transport       frame_router.h, requests.h
//   memory of the node      store
//   the process's end       set_shutting_down, set_cut_off
//
// Thread rule: public functions from any thread; those that say so want the lock held.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "core/exec/waiter.h"
#include "core/net/endpoint/endpoint.h"
#include "core/wire/messages.h"
#include "core/runtime/core_lock.h"
#include "core/runtime/frame_router.h"
#include "core/runtime/requests.h"
#include "core/runtime/service_queue.h"
#include "core/runtime/surroundings.h"
#include "core/runtime/task_waits.h"

namespace troupe::store {
class StoreClient;
}

namespace troupe::worker {

/// Who this process is, as its daemon told it.
struct Identity {
  wire::Welcome welcome;
  bool driver = false;
  bool local = false;   // a worker whose threads belong to a process that goes on when it ends (local mode)
};

class Runtime : public exec::ThreadBlocker {
 public:
  /// `endpoint` serves the rings while threads wait; null where nobody waits (simulator).
  Runtime(Identity identity, const Surroundings& surroundings, net::Endpoint* endpoint, net::Handler& handler);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // ---- who this is
  const wire::Welcome& welcome() const { return identity_.welcome; }
  ProcessId self() const { return identity_.welcome.self; }
  ProcessId daemon() const { return daemon_of(self().node); }
  bool is_driver() const { return identity_.driver; }
  bool is_local() const { return identity_.local; }

  // ---- parts
  StateMutex& mutex() { return mutex_; }
  bool lock_held() const { return mutex_.held(); }
  FrameRouter& frames() { return frames_; }
  Requests& requests() { return requests_; }
  Transport& transport() { return surroundings_.transport; }
  ServiceThread& service() { return surroundings_.service; }
  ServiceQueue& service_queue() { return queue_; }
  store::StoreClient& store() { return *store_; }
  void set_store(store::StoreClient& store) { store_ = &store; }
  TaskWaits& task_waits() { return *task_waits_; }
  void set_task_waits(TaskWaits& waits) { task_waits_ = &waits; }

  net::Endpoint& endpoint() override { return *endpoint_; }
  net::Handler& handler() override { return handler_; }

  // ---- time
  exec::Deadline now() const { return surroundings_.clock.now(); }
  exec::Deadline deadline_after(Duration timeout) const { return surroundings_.clock.deadline_after(timeout); }
  double chance() { return surroundings_.clock.chance(); }

  // ---- lock held
  Timers::Id add_timer(exec::Deadline when, std::function<void()> action) {
    return queue_.add_timer(when, std::move(action));
  }
  void cancel_timer(Timers::Id id) { queue_.cancel_timer(id); }
  void run_later(std::function<void()> callback) { queue_.run_later(std::move(callback)); }
  void defer(std::function<void()> action) { mutex_.defer(std::move(action)); }
  /// From now on waits fail and nothing new is asked for. False: it was so already.
  bool set_shutting_down(ErrorPtr why);

  // ---- any thread
  bool shutting_down() const { return shutting_down_.load(std::memory_order_acquire); }
  ErrorPtr shutdown_reason() const { return shutdown_reason_; }
  /// A local worker that was killed: nothing of it leaves and no call begins any more.
  bool is_cut_off() const { return cut_off_.load(std::memory_order_relaxed); }
  /// False: it was so already.
  bool set_cut_off() { return !cut_off_.exchange(true); }
  void warn(const std::string& text);
  /// RFM-1: logs that a frame is dropped, e.g. "a reply".
  void bad_frame(std::string_view what, ProcessId source);

 protected:
  ~Runtime() override = default;

 private:
  const Identity identity_;
  const Surroundings surroundings_;
  net::Endpoint* const endpoint_;
  net::Handler& handler_;
  StateMutex mutex_;
  ServiceQueue queue_;
  Requests requests_;
  FrameRouter frames_;
  store::StoreClient* store_ = nullptr;
  TaskWaits* task_waits_ = nullptr;
  ErrorPtr shutdown_reason_;
  std::atomic<bool> shutting_down_{false}, cut_off_{false};
};

inline CoreLock::CoreLock(Runtime& runtime) : CoreLock(runtime.mutex()) {}

}  // namespace troupe::worker
