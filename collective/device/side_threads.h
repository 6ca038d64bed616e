// SideThreads: calls that may never return, each on a thread of its own. NCCL's init, finalize and abort are such
// calls.
//
// Invariants
//   CST-1  A thread that hangs in a foreign library can be neither ended nor joined: await_idle() says so, and then
//          this must not be destroyed.
// Thread rule: any thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace troupe::collective {

class SideThreads {
 public:
  SideThreads() = default;
  ~SideThreads();
  SideThreads(const SideThreads&) = delete;
  SideThreads& operator=(const SideThreads&) = delete;

  /// `work` does not throw. `what` names it in the report.
  void run(std::string what, std::function<void()> work);
  /// Waits until nothing is under way. False: the time is over; logs what hangs.
  bool await_idle(std::chrono::nanoseconds limit);

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
  };
  struct One {
    std::string what;
    std::thread thread;
    std::shared_ptr<bool> over;  // under the mutex
  };
  void join_finished();  // under the mutex

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::list<One> threads_;
};

}  // namespace troupe::collective
