#include "core/exec/boost_fibers.h"

#include <atomic>
#include <boost/fiber/algo/round_robin.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>
#include <fstream>
#include <new>
#include <utility>

#include "core/base/log.h"
#include "core/exec/guarded_stack.h"
#include "core/exec/stack_overflow.h"

namespace troupe::exec {

namespace {

constexpr std::size_t kMapsUsual = 65530;  // vm.max_map_count, where it cannot be read

std::atomic<std::size_t> stacks{0};  // of all fibers of this process

/// A stack and its guard area are two mappings each: three eighths of what is allowed leave a quarter to all others.
std::size_t stacks_max() {
  static const std::size_t most = [] {
    std::size_t maps = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> maps;
    return (maps ? maps : kMapsUsual) * 3 / 8;
  }();
  return most;
}

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

BoostFibers::BoostFibers(ThreadBlocker& blocker, const FiberThread::Options& options)
    : blocker_(blocker), options_(options) {}
BoostFibers::~BoostFibers() = default;

thread_local std::uint64_t BoostFibers::running_turn_ = 0;

/// A new fiber that waits for the role. False: there are as many as may be, or the system gives no memory for a stack.
bool BoostFibers::try_spawn_locked() noexcept {
  try {
    if (fibers_ < options_.fibers_max && stacks.load() < stacks_max()) {
      boost::fibers::fiber(boost::fibers::launch::post, std::allocator_arg,
                           GuardedStack(options_.stack_size), [this] { fiber_main(); })
          .detach();
      ++fibers_;
      ++stacks;
      return true;
    }
  } catch (const std::exception&) {
  }
  if (!std::exchange(told_, true))
    write_log(LogLevel::kWarn,
              "{} calls wait on fibers of one thread, and no stack can be made for another (vm.max_map_count, memory): "
              "further calls wait until one of them ends",
              methods_);
  return false;
}

/// A fiber's life: wait for the role, run work while it has it, stand by.
void BoostFibers::fiber_main() {
  std::unique_lock lock(mutex_);
  for (bool first = true;; first = false) {
    if (role_ != 0 && !ended_) {
      if (!first && standby_ >= kStandbyMax) break;
      ++standby_;
      role_free_.wait(lock, [&] { return role_ == 0 || ended_; });
      --standby_;
    }
    if (ended_) break;
    const std::uint64_t turn = role_ = ++turns_;
    while (role_ == turn) {
      if (posted_.empty()) {
        if (stopping_ && methods_ == 0) { ended_ = true; role_ = 0; break; }
        idle_ = true;
        work_came_.wait(lock);
        idle_ = false;
        continue;
      }
      std::function<void()> work = std::move(posted_.front());
      posted_.pop_front();
      ++methods_;
      lock.unlock();
      running_turn_ = turn;
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
  --stacks;
  if (ended_) role_free_.notify_all();
  if (fibers_ == 0) all_gone_.notify_all();
}

/// Before the running fiber suspends: somebody else dispatches from now on, or, with no fiber left, the next one that
/// ends its method (FB-4).
std::uint64_t BoostFibers::hand_over(std::uint64_t turn) {
  std::lock_guard lock(mutex_);
  if (role_ == turn && turn != 0) {
    if (standby_ > 0) role_free_.notify_one();
    else (void)try_spawn_locked();
    role_ = 0;
  }
  return turn;
}

class BoostFibers::Wait final : public FiberWait {
 public:
  explicit Wait(BoostFibers& machine) : machine_(machine) {}

  void notify() noexcept override {
    std::lock_guard lock(mutex_);
    notified_ = true;
    woken_.notify_one();
  }
  bool wait(Deadline deadline) override {
    std::unique_lock lock(mutex_);
    if (!notified_) {
      lock.unlock();
      const std::uint64_t turn = machine_.hand_over(running_turn_);
      void* const kept = fiber_local();
      lock.lock();
      if (deadline == kNever) woken_.wait(lock, [&] { return notified_; });
      else woken_.wait_until(lock, deadline, [&] { return notified_; });
      fiber_local() = kept;
      running_turn_ = turn;
    }
    return std::exchange(notified_, false);
  }

 private:
  BoostFibers& machine_;
  std::mutex mutex_;
  bool notified_ = false;
  boost::fibers::condition_variable_any woken_;
};

std::unique_ptr<FiberWait> BoostFibers::make_wait() { return std::make_unique<Wait>(*this); }

void BoostFibers::yield() {
  const FiberGlobals globals;
  const std::uint64_t turn = hand_over(running_turn_);
  void* const kept = fiber_local();
  boost::this_fiber::yield();
  fiber_local() = kept;
  running_turn_ = turn;
}

void BoostFibers::post(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  posted_.push_back(std::move(work));
  work_came_.notify_one();
}

void BoostFibers::stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  work_came_.notify_all();
}

void BoostFibers::run() {
  const StackOverflowReport report(options_.stack_size);
  boost::fibers::use_scheduling_algorithm<EndpointScheduler>(blocker_);
  current() = this;
  {
    std::unique_lock lock(mutex_);
    if (!try_spawn_locked()) throw std::bad_alloc();
    all_gone_.wait(lock, [&] { return ended_ && fibers_ == 0; });
  }
  current() = nullptr;
}

std::unique_ptr<FiberMachine> make_fiber_machine(ThreadBlocker& blocker, const FiberThread::Options& options) {
  return std::make_unique<BoostFibers>(blocker, options);
}

}  // namespace troupe::exec
