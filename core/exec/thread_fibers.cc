#include "core/exec/thread_fibers.h"

#include <sched.h>

#include <algorithm>
#include <new>
#include <utility>

namespace troupe::exec {

namespace {
constexpr std::size_t kThreadsMax = 2000;
thread_local std::uint64_t running_turn = 0;
}  // namespace

ThreadFibers::ThreadFibers(const FiberThread::Options& options) : options_(options) {}

void ThreadFibers::take_baton(Lock& lock) {
  const std::uint64_t ticket = next_ticket_++;
  baton_free_.wait(lock, [&] { return !taken_ && serving_ == ticket; });
  ++serving_;
  taken_ = true;
}

void ThreadFibers::give_baton() {
  taken_ = false;
  baton_free_.notify_all();
}

template <class Pred> void ThreadFibers::pause(Lock& lock, std::condition_variable& until, Pred&& pred) {
  while (!pred()) {
    give_baton();
    until.wait(lock);
    take_baton(lock);
  }
}

/// False: there are as many as may be, or the system gives no thread.
bool ThreadFibers::try_spawn_locked() noexcept {
  if (fibers_ >= std::min(options_.fibers_max, kThreadsMax)) return false;
  try {
    threads_.emplace_back([this] { fiber_main(); });
  } catch (const std::exception&) {
    return false;
  }
  ++fibers_;
  return true;
}

void ThreadFibers::fiber_main() {
  current() = this;
  Lock lock(mutex_);
  take_baton(lock);
  for (bool first = true;; first = false) {
    if (role_ != 0 && !ended_) {
      if (!first && standby_ >= kStandbyMax) break;
      ++standby_;
      pause(lock, role_free_, [&] { return role_ == 0 || ended_; });
      --standby_;
    }
    if (ended_) break;
    const std::uint64_t turn = role_ = ++turns_;
    while (role_ == turn) {
      if (posted_.empty()) {
        if (stopping_ && methods_ == 0) { ended_ = true; role_ = 0; break; }
        idle_ = true;
        pause(lock, work_came_, [&] { return !posted_.empty() || (stopping_ && methods_ == 0); });
        idle_ = false;
        continue;
      }
      std::function<void()> work = std::move(posted_.front());
      posted_.pop_front();
      ++methods_;
      lock.unlock();
      running_turn = turn;
      fiber_local() = nullptr;
      work();
      work = nullptr;
      lock.lock();
      --methods_;
      if (stopping_) work_came_.notify_all();
    }
    if (ended_) break;
  }
  --fibers_;
  if (ended_) role_free_.notify_all();
  if (fibers_ == 0) all_gone_.notify_all();
  give_baton();
}

/// Before the running fiber suspends: somebody else dispatches from now on, or the next that ends its method (FB-4).
void ThreadFibers::hand_over() {
  if (role_ != running_turn || running_turn == 0) return;
  if (standby_ > 0) role_free_.notify_one();
  else (void)try_spawn_locked();
  role_ = 0;
}

class ThreadFibers::Wait final : public FiberWait {
 public:
  explicit Wait(ThreadFibers& machine) : machine_(machine) {}

  void notify() noexcept override {
    std::lock_guard lock(machine_.mutex_);
    notified_ = true;
    woken_.notify_one();
  }
  bool wait(Deadline deadline) override {
    Lock lock(machine_.mutex_);
    if (!notified_) {
      machine_.hand_over();
      machine_.give_baton();
      if (deadline == kNever) woken_.wait(lock, [&] { return notified_; });
      else woken_.wait_until(lock, deadline, [&] { return notified_; });
      machine_.take_baton(lock);
    }
    return std::exchange(notified_, false);
  }

 private:
  ThreadFibers& machine_;
  bool notified_ = false;  // under the machine's mutex
  std::condition_variable woken_;
};

std::unique_ptr<FiberWait> ThreadFibers::make_wait() { return std::make_unique<Wait>(*this); }

void ThreadFibers::yield() {
  Lock lock(mutex_);
  hand_over();
  give_baton();
  lock.unlock();
  ::sched_yield();
  lock.lock();
  take_baton(lock);
}

void ThreadFibers::post(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  posted_.push_back(std::move(work));
  work_came_.notify_one();
}

void ThreadFibers::stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  work_came_.notify_all();
}

void ThreadFibers::run() {
  {
    Lock lock(mutex_);
    if (!try_spawn_locked()) throw std::bad_alloc();
    all_gone_.wait(lock, [&] { return ended_ && fibers_ == 0; });
  }
  for (std::thread& thread : threads_) thread.join();
}

std::unique_ptr<FiberMachine> make_fiber_machine(ThreadBlocker&, const FiberThread::Options& options) {
  return std::make_unique<ThreadFibers>(options);
}

}  // namespace troupe::exec
