// FiberThread for sanitizer builds: every fiber is a thread, and one of them runs at a time.
//
// Debian's Boost.Context does not tell sanitizers of its stack switches, so they would take one fiber's stack for
// another's. Here the same machine of roles (fibers.h) stands on threads that pass a baton: who runs holds it, who
// waits gives it back. What a program can see is the same, but for speed, for thread_local variables, and for the
// number of blocked methods.
#include "core/exec/fibers.h"

#include <cxxabi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::exec {

namespace {

constexpr std::size_t kStandbyMax = 64, kThreadsMax = 2000;

thread_local FiberThread::Impl* current_thread = nullptr;
thread_local void* local_value = nullptr;
thread_local std::uint64_t running_turn = 0;

}  // namespace

struct FiberThread::Impl {
  explicit Impl(Options o) : options(o) {}

  using Lock = std::unique_lock<std::mutex>;

  Options options;
  std::mutex mutex;
  std::deque<std::function<void()>> posted;
  bool stopping = false;
  bool ended = false;
  std::uint64_t role = 0;                    // the turn that holds the dispatch role; 0: free
  std::uint64_t turns = 0;
  std::size_t standby = 0, fibers = 0, methods = 0;
  std::atomic<bool> idle{false};  // the dispatcher waits for work
  std::uint64_t next_ticket = 0, serving = 0;  // the baton, in the order of asking
  bool taken = false;
  std::condition_variable role_free, work_came, all_gone, baton_free;
  std::vector<std::thread> threads;

  void take_baton(Lock& lock) {
    const std::uint64_t ticket = next_ticket++;
    baton_free.wait(lock, [&] { return !taken && serving == ticket; });
    ++serving;
    taken = true;
  }
  void give_baton() {
    taken = false;
    baton_free.notify_all();
  }
  template <class Pred> void pause(Lock& lock, std::condition_variable& until, Pred&& pred) {
    while (!pred()) {
      give_baton();
      until.wait(lock);
      take_baton(lock);
    }
  }

  /// False: there are as many as may be, or the system gives no thread.
  bool try_spawn_locked() noexcept {
    if (fibers >= std::min(options.fibers_max, kThreadsMax)) return false;
    try {
      threads.emplace_back([this] { fiber_main(); });
    } catch (const std::exception&) {
      return false;
    }
    ++fibers;
    return true;
  }
  void fiber_main();
  void hand_over();
};

void FiberThread::Impl::fiber_main() {
  current_thread = this;
  Lock lock(mutex);
  take_baton(lock);
  for (bool first = true;; first = false) {
    if (role != 0 && !ended) {
      if (!first && standby >= kStandbyMax) break;
      ++standby;
      pause(lock, role_free, [&] { return role == 0 || ended; });
      --standby;
    }
    if (ended) break;
    const std::uint64_t turn = role = ++turns;
    while (role == turn) {
      if (posted.empty()) {
        if (stopping && methods == 0) { ended = true; role = 0; break; }
        idle = true;
        pause(lock, work_came, [&] { return !posted.empty() || (stopping && methods == 0); });
        idle = false;
        continue;
      }
      std::function<void()> work = std::move(posted.front());
      posted.pop_front();
      ++methods;
      lock.unlock();
      running_turn = turn;
      local_value = nullptr;
      work();
      work = nullptr;
      lock.lock();
      --methods;
      if (stopping) work_came.notify_all();
    }
    if (ended) break;
  }
  --fibers;
  if (ended) role_free.notify_all();
  if (fibers == 0) all_gone.notify_all();
  give_baton();
}

/// Before the running fiber suspends: somebody else dispatches from now on, or the next that ends its method (FB-4).
void FiberThread::Impl::hand_over() {
  if (role != running_turn || running_turn == 0) return;
  if (standby > 0) role_free.notify_one();
  else (void)try_spawn_locked();
  role = 0;
}

namespace {

class FiberWaitImpl final : public FiberWait {
 public:
  explicit FiberWaitImpl(FiberThread::Impl& thread) : thread_(thread) {}

  void notify() noexcept override {
    std::lock_guard lock(thread_.mutex);
    notified_ = true;
    woken_.notify_one();
  }
  bool wait(Deadline deadline) override {
    FiberThread::Impl::Lock lock(thread_.mutex);
    if (!notified_) {
      thread_.hand_over();
      thread_.give_baton();
      if (deadline == kNever) woken_.wait(lock, [&] { return notified_; });
      else woken_.wait_until(lock, deadline, [&] { return notified_; });
      thread_.take_baton(lock);
    }
    return std::exchange(notified_, false);
  }

 private:
  FiberThread::Impl& thread_;
  bool notified_ = false;  // under the thread's mutex
  std::condition_variable woken_;
};

}  // namespace

std::unique_ptr<FiberWait> make_fiber_wait() {
  if (!current_thread) return nullptr;
  return std::make_unique<FiberWaitImpl>(*current_thread);
}

bool on_fiber() noexcept { return current_thread != nullptr; }

void yield_now() {
  if (current_thread) {
    FiberThread::Impl::Lock lock(current_thread->mutex);
    current_thread->hand_over();
    current_thread->give_baton();
    lock.unlock();
    ::sched_yield();
    lock.lock();
    current_thread->take_baton(lock);
  } else {
    ::sched_yield();
  }
}

// Threads have their own exception state and errno: nothing is to be kept.
FiberGlobals::FiberGlobals() noexcept : caught_(nullptr), uncaught_(0), errno_(0) {}
FiberGlobals::~FiberGlobals() {
  (void)caught_;
  (void)uncaught_;
  (void)errno_;
}

void*& fiber_local() noexcept { return local_value; }

FiberThread::FiberThread(ThreadBlocker&, Options options) : impl_(std::make_unique<Impl>(options)) {}
FiberThread::~FiberThread() = default;

void FiberThread::post(std::function<void()> work) {
  std::lock_guard lock(impl_->mutex);
  impl_->posted.push_back(std::move(work));
  impl_->work_came.notify_one();
}

bool FiberThread::idle() const noexcept { return impl_->idle.load(); }

void FiberThread::stop() {
  std::lock_guard lock(impl_->mutex);
  impl_->stopping = true;
  impl_->work_came.notify_all();
}

void FiberThread::run() {
  {
    Impl::Lock lock(impl_->mutex);
    if (!impl_->try_spawn_locked()) throw std::bad_alloc();
    impl_->all_gone.wait(lock, [&] { return impl_->ended && impl_->fibers == 0; });
  }
  for (std::thread& thread : impl_->threads) thread.join();
}

}  // namespace troupe::exec
