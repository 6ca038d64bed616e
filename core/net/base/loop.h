// SocketLoop: one thread that waits for sockets, deadlines and work posted by other threads. Links and data sockets run
// on it.
//
// Thread rule: post, post_and_wait and stop from any thread but the loop's own; everything else on the loop's thread
// (handlers run there, one at a time). A handler must not block, for all sockets of the loop wait meanwhile.
//
// Invariants
//   NSL-1  A handler is never called after forget(fd) or cancel(id) returned, not even for events of the same round.
//   NSL-2  Posted work runs in the order of posting. What is posted after stop() began is dropped.
//   NSL-3  stop() returns when the thread has ended: no handler runs afterwards.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include <troupe/result.h>

namespace troupe::net {

using SteadyTime = std::chrono::steady_clock::time_point;

class SocketLoop {
 public:
  using FdHandler = std::function<void(std::uint32_t events)>;
  using Work = std::function<void()>;
  using TimerId = std::pair<SteadyTime, std::uint64_t>;

  /// Starts the thread; `name` (at most 15 characters) is what the thread is called in listings.
  static Result<std::unique_ptr<SocketLoop>> start(const char* name);
  ~SocketLoop();
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;

  // ---- any thread
  void post(Work work);
  /// Ends the thread after the current round. Handlers and work that did not run are destroyed. Idempotent.
  void stop();
  bool on_loop_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // ---- the loop's thread
  void watch(int fd, std::uint32_t events, FdHandler handler);  ///< events as for epoll
  void rearm(int fd, std::uint32_t events);
  void forget(int fd);
  TimerId at(SteadyTime when, Work work);
  void cancel(TimerId id) { timers_.erase(id); }

 private:
  struct Watched { std::uint64_t generation = 0; FdHandler handler; };
  SocketLoop() = default;
  void run();
  void run_posted();
  void run_timers();
  void dispatch(std::uint64_t key, std::uint32_t events);
  int until_next_timer() const;

  UniqueFd epoll_, event_;
  std::unordered_map<int, std::shared_ptr<Watched>> watched_;
  std::map<TimerId, Work> timers_;
  std::uint64_t next_generation_ = 1, next_timer_ = 1;
  std::mutex mutex_;
  std::vector<Work> posted_;  // under mutex_
  bool stopping_ = false;     // under mutex_
  std::thread thread_;
};

}  // namespace troupe::net
