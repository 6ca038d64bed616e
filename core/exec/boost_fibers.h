// BoostFibers: a FiberMachine on Boost.Fiber: each fiber has a stack of its own (guarded_stack.h), a switch costs some
// tens of nanoseconds, and a thread without a ready fiber blocks in its endpoint.
//
// The conditions are Boost.Fiber's, used with short std::mutex sections: notifying one is safe in every context, also
// in the handler that runs while the scheduler is idle.
//
// Thread rule: that of FiberThread. boost::this_fiber is used nowhere else.
#pragma once
#include <atomic>
#include <boost/fiber/condition_variable.hpp>
#include <cstdint>
#include <deque>
#include <mutex>

#include "core/exec/fiber_machine.h"

namespace troupe::exec {

class BoostFibers final : public FiberMachine {
 public:
  BoostFibers(ThreadBlocker& blocker, const FiberThread::Options& options);
  ~BoostFibers() override;

  void post(std::function<void()> work) override;
  void run() override;
  bool idle() const noexcept override { return idle_.load(); }
  void stop() override;
  std::unique_ptr<FiberWait> make_wait() override;
  void yield() override;

 private:
  class Wait;
  bool try_spawn_locked() noexcept;
  void fiber_main();
  std::uint64_t hand_over(std::uint64_t turn);

  ThreadBlocker& blocker_;
  const FiberThread::Options options_;
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;
  bool stopping_ = false;
  bool ended_ = false;
  bool told_ = false;             // that no more fibers can be made
  std::uint64_t role_ = 0;        // the turn that holds the dispatch role; 0: free
  std::uint64_t turns_ = 0;
  std::size_t standby_ = 0, fibers_ = 0, methods_ = 0;
  std::atomic<bool> idle_{false};                     // the dispatcher waits for work
  boost::fibers::condition_variable_any role_free_;   // standby fibers
  boost::fibers::condition_variable_any work_came_;   // the idle dispatcher
  boost::fibers::condition_variable_any all_gone_;    // run()
  thread_local static std::uint64_t running_turn_;    // of the running fiber; Wait and yield keep it over switches
};

}  // namespace troupe::exec
