// ThreadFibers: a FiberMachine whose fibers are threads, for sanitizer builds: one of them runs at a time.
//
// Debian's Boost.Context does not tell sanitizers of its stack switches, so they would take one fiber's stack for
// another's. Here the same machine of roles (fibers.h) stands on threads that pass a baton: who runs holds it, who
// waits gives it back. What a program can see is the same, but for speed, for thread_local variables, and for the
// number of blocked methods.
//
// Thread rule: that of FiberThread; its fibers are the threads that it makes.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "core/exec/fiber_machine.h"

namespace troupe::exec {

class ThreadFibers final : public FiberMachine {
 public:
  explicit ThreadFibers(const FiberThread::Options& options);

  void post(std::function<void()> work) override;
  void run() override;
  bool idle() const noexcept override { return idle_.load(); }
  void stop() override;
  std::unique_ptr<FiberWait> make_wait() override;
  void yield() override;

 private:
  class Wait;
  using Lock = std::unique_lock<std::mutex>;

  void take_baton(Lock& lock);
  void give_baton();
  template <class Pred> void pause(Lock& lock, std::condition_variable& until, Pred&& pred);
  /// False: there are as many as may be, or the system gives no thread.
  bool try_spawn_locked() noexcept;
  void fiber_main();
  void hand_over();

  const FiberThread::Options options_;
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;
  bool stopping_ = false;
  bool ended_ = false;
  std::uint64_t role_ = 0;                      // the turn that holds the dispatch role; 0: free
  std::uint64_t turns_ = 0;
  std::size_t standby_ = 0, fibers_ = 0, methods_ = 0;
  std::atomic<bool> idle_{false};               // the dispatcher waits for work
  std::uint64_t next_ticket_ = 0, serving_ = 0; // the baton, in the order of asking
  bool taken_ = false;
  std::condition_variable role_free_, work_came_, all_gone_, baton_free_;
  std::vector<std::thread> threads_;
};

}  // namespace troupe::exec
