#include "core/exec/fibers.h"
#include "core/exec/stack_overflow.h"

#include <cxxabi.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <boost/fiber/algo/round_robin.hpp>
#include <boost/fiber/condition_variable.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>
#include <deque>
#include <fstream>
#include <mutex>
#include <new>
#include <utility>

#include "core/base/log.h"

namespace troupe::exec {

namespace {

constexpr std::size_t kStandbyMax = 64;
constexpr std::size_t kMapsUsual = 65530;  // vm.max_map_count, where it cannot be read

std::atomic<std::size_t> stacks{0};  // of all fibers of this process

/// A stack and its guard page are two mappings each: three eighths of what is allowed leave a quarter to all others.
std::size_t stacks_max() {
  static const std::size_t most = [] {
    std::size_t maps = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> maps;
    return (maps ? maps : kMapsUsual) * 3 / 8;
  }();
  return most;
}

thread_local FiberThread::Impl* current_thread = nullptr;
thread_local void* local_value = nullptr;

/// Round robin whose idle thread blocks in the process's endpoint, serving the rings, until a fiber becomes ready. The
/// handler may itself make a fiber of this thread ready: awakened then ends the block.
class EndpointScheduler final : public boost::fibers::algo::round_robin {
 public:
  explicit EndpointScheduler(ThreadBlocker& blocker) : blocker_(blocker), parker_(blocker.endpoint()) {}

  void awakened(boost::fibers::context* fiber) noexcept override {
    round_robin::awakened(fiber);
    if (blocked_) parker_.notify();
  }
  void suspend_until(const std::chrono::steady_clock::time_point& until) noexcept override {
    blocked_ = true;
    blocker_.endpoint().block(parker_, until, blocker_.handler());
    blocked_ = false;
  }
  void notify() noexcept override { parker_.notify(); }

 private:
  ThreadBlocker& blocker_;
  net::Parker parker_;
  bool blocked_ = false;
};

}  // namespace

// The conditions are Boost.Fiber's, used with short std::mutex sections: notifying one is safe in every context, also
// in the handler that runs while the scheduler is idle.
struct FiberThread::Impl {
  Impl(ThreadBlocker& b, Options o) : blocker(b), options(o) {}

  ThreadBlocker& blocker;
  Options options;

  std::mutex mutex;
  std::deque<std::function<void()>> posted;
  bool stopping = false;
  bool ended = false;
  bool told = false;             // that no more fibers can be made
  std::uint64_t role = 0;        // the turn that holds the dispatch role; 0: free
  std::uint64_t turns = 0;
  std::size_t standby = 0, fibers = 0, methods = 0;
  std::atomic<bool> idle{false};  // the dispatcher waits for work
  boost::fibers::condition_variable_any role_free;   // standby fibers
  boost::fibers::condition_variable_any work_came;   // the idle dispatcher
  boost::fibers::condition_variable_any all_gone;    // run()

  bool try_spawn_locked() noexcept;
  void fiber_main();
  std::uint64_t hand_over(std::uint64_t turn);
  thread_local static std::uint64_t running_turn;    // of the running fiber; kept over switches by FiberWaitImpl
};
thread_local std::uint64_t FiberThread::Impl::running_turn = 0;

/// A new fiber that waits for the role. False: there are as many as may be, or the system gives no memory for a stack.
bool FiberThread::Impl::try_spawn_locked() noexcept {
  try {
    if (fibers < options.fibers_max && stacks.load() < stacks_max()) {
      boost::fibers::fiber(boost::fibers::launch::post, std::allocator_arg,
                           boost::context::protected_fixedsize_stack(options.stack_size), [this] { fiber_main(); })
          .detach();
      ++fibers;
      ++stacks;
      return true;
    }
  } catch (const std::exception&) {
  }
  if (!std::exchange(told, true))
    write_log(LogLevel::kWarn,
              "{} calls wait on fibers of one thread, and no stack can be made for another (vm.max_map_count, memory): "
              "further calls wait until one of them ends",
              methods);
  return false;
}

/// A fiber's life: wait for the role, run work while it has it, stand by.
void FiberThread::Impl::fiber_main() {
  std::unique_lock lock(mutex);
  for (bool first = true;; first = false) {
    if (role != 0 && !ended) {
      if (!first && standby >= kStandbyMax) break;
      ++standby;
      role_free.wait(lock, [&] { return role == 0 || ended; });
      --standby;
    }
    if (ended) break;
    const std::uint64_t turn = role = ++turns;
    while (role == turn) {
      if (posted.empty()) {
        if (stopping && methods == 0) { ended = true; role = 0; break; }
        idle = true;
        work_came.wait(lock);
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
  --stacks;
  if (ended) role_free.notify_all();
  if (fibers == 0) all_gone.notify_all();
}

/// Before the running fiber suspends: somebody else dispatches from now on, or, with no fiber left, the next one that
/// ends its method (FB-4).
std::uint64_t FiberThread::Impl::hand_over(std::uint64_t turn) {
  std::lock_guard lock(mutex);
  if (role == turn && turn != 0) {
    if (standby > 0) role_free.notify_one();
    else (void)try_spawn_locked();
    role = 0;
  }
  return turn;
}

namespace {

class FiberWaitImpl final : public FiberWait {
 public:
  explicit FiberWaitImpl(FiberThread::Impl& thread) : thread_(thread) {}

  void notify() noexcept override {
    std::lock_guard lock(mutex_);
    notified_ = true;
    woken_.notify_one();
  }
  bool wait(Deadline deadline) override {
    std::unique_lock lock(mutex_);
    if (!notified_) {
      lock.unlock();
      const std::uint64_t turn = thread_.hand_over(FiberThread::Impl::running_turn);
      void* const kept = local_value;
      lock.lock();
      if (deadline == kNever) woken_.wait(lock, [&] { return notified_; });
      else woken_.wait_until(lock, deadline, [&] { return notified_; });
      local_value = kept;
      FiberThread::Impl::running_turn = turn;
    }
    return std::exchange(notified_, false);
  }

 private:
  FiberThread::Impl& thread_;
  std::mutex mutex_;
  bool notified_ = false;
  boost::fibers::condition_variable_any woken_;
};

}  // namespace

std::unique_ptr<FiberWait> make_fiber_wait() {
  if (!current_thread) return nullptr;
  return std::make_unique<FiberWaitImpl>(*current_thread);
}

bool on_fiber() noexcept { return current_thread != nullptr; }

void yield_now() {
  if (!current_thread) {
    ::sched_yield();
    return;
  }
  const FiberGlobals globals;
  const std::uint64_t turn = current_thread->hand_over(FiberThread::Impl::running_turn);
  void* const kept = local_value;
  boost::this_fiber::yield();
  local_value = kept;
  FiberThread::Impl::running_turn = turn;
}

namespace {
/// caughtExceptions and uncaughtExceptions of the C++ runtime, as its binary interface lays them out.
struct CxaGlobals { void* caught; unsigned int uncaught; };
CxaGlobals& cxa_globals() noexcept { return *reinterpret_cast<CxaGlobals*>(abi::__cxa_get_globals()); }
}  // namespace

FiberGlobals::FiberGlobals() noexcept
    : caught_(cxa_globals().caught), uncaught_(cxa_globals().uncaught), errno_(errno) {
  cxa_globals() = {nullptr, 0};
}
FiberGlobals::~FiberGlobals() {
  cxa_globals() = {caught_, uncaught_};
  errno = errno_;
}

void*& fiber_local() noexcept { return local_value; }

FiberThread::FiberThread(ThreadBlocker& blocker, Options options) : impl_(std::make_unique<Impl>(blocker, options)) {}
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
  const StackOverflowReport report(impl_->options.stack_size);
  boost::fibers::use_scheduling_algorithm<EndpointScheduler>(impl_->blocker);
  current_thread = impl_.get();
  {
    std::unique_lock lock(impl_->mutex);
    if (!impl_->try_spawn_locked()) throw std::bad_alloc();
    impl_->all_gone.wait(lock, [&] { return impl_->ended && impl_->fibers == 0; });
  }
  current_thread = nullptr;
}

}  // namespace troupe::exec
