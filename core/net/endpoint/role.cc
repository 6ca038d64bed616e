#include "core/net/endpoint/role.h"

#include <sched.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/check.h"

namespace troupe::net {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollBudget = 256;
constexpr int kServiceBudget = 4096;
constexpr std::chrono::nanoseconds kIntervalMax = std::chrono::milliseconds(1);
constexpr std::uint32_t kPausesPerLook = 32;  // between two looks at the clock
constexpr std::uint32_t kYieldsPerLook = 4;

// An address that is this thread's alone while it lives.
const void* my_token() noexcept {
  thread_local char token;
  return &token;
}

void pause_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void empty_event(int fd) noexcept {
  std::uint64_t count;
  [[maybe_unused]] const auto got = ::read(fd, &count, sizeof(count));
}

}  // namespace

bool ConsumerRole::held_by_me() const noexcept { return holder_.load(std::memory_order_relaxed) == my_token(); }

// ---- taking and leaving

bool ConsumerRole::try_take() {
  const void* nobody = nullptr;
  if (!holder_.compare_exchange_strong(nobody, my_token(), std::memory_order_seq_cst)) return false;
  changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  doorbell_.set_mode(ListenMode::kAwake);
  return true;
}

void ConsumerRole::leave() {
  for (;;) {
    if (hand_over()) return;
    const bool attended = leave_alone();
    holder_.store(nullptr, std::memory_order_seq_cst);
    // NRO-2, NRO-3: look again. Whoever takes the role before we do has the same duty when it leaves.
    const bool settled = !somebody_waits() && (!attended || attended_.load(std::memory_order_seq_cst));
    if (settled || !try_take()) return;
  }
}

// Does a thread wait that is not about to leave block() anyway?
bool ConsumerRole::somebody_waits() {
  if (waiters_.load(std::memory_order_seq_cst) == 0) return false;
  std::lock_guard lock(queue_mutex_);
  for (Parker* waiter = first_; waiter; waiter = waiter->next_) {
    if (!waiter->notified()) return true;
  }
  return false;
}

// Gives the role to a waiter, if there is one that still wants it.
bool ConsumerRole::hand_over() {
  if (waiters_.load(std::memory_order_seq_cst) == 0) return false;
  std::lock_guard lock(queue_mutex_);
  for (Parker* waiter = first_; waiter; waiter = waiter->next_) {
    if (waiter->notified()) continue;  // it is about to leave block()
    dequeue(*waiter);
    handovers.add();
    changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    holder_.store(waiter->token_, std::memory_order_seq_cst);
    // The waiter cannot return before it has had our lock, so it is there until we let go.
    const auto before = waiter->state_.fetch_or(Parker::kHasRole, std::memory_order_seq_cst);
    if (before & Parker::kParked) futex_wake(&waiter->state_, 1, FutexScope::kThisProcess);
    return true;
  }
  return false;
}

// Makes the doorbell fit for nobody listening. True: it stays AWAKE because the service thread attends.
bool ConsumerRole::leave_alone() {
  if (attended_.load(std::memory_order_seq_cst)) return true;
  doorbell_.set_mode(ListenMode::kUnheld);
  if (!inbox_.ready()) return false;
  // Something came, or was left. Its ringers may have seen us awake: the service thread must be told by us.
  attended_.store(true, std::memory_order_seq_cst);
  doorbell_.set_mode(ListenMode::kAwake);
  doorbell_.call_service();
  return true;
}

bool ConsumerRole::acquire() {
  if (held_by_me()) return false;
  if (try_take()) return true;
  Parker parker(*this);
  urgent_.fetch_add(1, std::memory_order_seq_cst);
  doorbell_.wake_sleeper();
  // No deadline: the holder lets go at its next look, which is at most one handler call away.
  park(parker, kNoDeadline, QueueEnd::kFront);
  urgent_.fetch_sub(1, std::memory_order_seq_cst);
  return true;
}

// ---- waiting

void ConsumerRole::enqueue(Parker& parker, QueueEnd end) {
  std::lock_guard lock(queue_mutex_);
  parker.token_ = my_token();
  parker.queued_ = true;
  if (end == QueueEnd::kFront) {
    parker.previous_ = nullptr;
    parker.next_ = first_;
    (first_ ? first_->previous_ : last_) = &parker;
    first_ = &parker;
  } else {
    parker.next_ = nullptr;
    parker.previous_ = last_;
    (last_ ? last_->next_ : first_) = &parker;
    last_ = &parker;
  }
  waiters_.fetch_add(1, std::memory_order_seq_cst);
}

// Under queue_mutex_. False when it was not in the queue.
bool ConsumerRole::dequeue(Parker& parker) {
  if (!parker.queued_) return false;
  (parker.previous_ ? parker.previous_->next_ : first_) = parker.next_;
  (parker.next_ ? parker.next_->previous_ : last_) = parker.previous_;
  parker.queued_ = false;
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  return true;
}

// Waits until the role is handed to us, or we are notified, or it is too late. kRole: this thread holds the role.
ConsumerRole::Ended ConsumerRole::park(Parker& parker, Deadline deadline, QueueEnd end) {
  enqueue(parker, end);
  bool mine = try_take();  // NRO-2
  for (bool in_time = true; !mine && in_time;) {
    const auto state = parker.state_.fetch_or(Parker::kParked, std::memory_order_seq_cst);
    if (state & (Parker::kNotified | Parker::kHasRole)) break;
    in_time = futex_wait(parker.state_, Parker::kParked, deadline, FutexScope::kThisProcess);
  }
  {
    std::lock_guard lock(queue_mutex_);
    dequeue(parker);
  }
  const auto state = parker.state_.fetch_and(~(Parker::kParked | Parker::kHasRole), std::memory_order_seq_cst);
  if (mine || (state & Parker::kHasRole)) return Ended::kRole;
  return (state & Parker::kNotified) ? Ended::kNotified : Ended::kDeadline;
}

bool ConsumerRole::block(Parker& parker, Deadline deadline, Handler& handler) {
  TROUPE_CHECK(!held_by_me(), "a handler must not block");
  bool mine = false;
  for (;;) {
    if (parker.notified() && parker.take()) {
      if (mine) leave();
      return true;
    }
    Ended ended;
    if (mine || try_take()) {
      ended = hold(parker, deadline, handler);
      leave();
      mine = false;
    } else {
      ended = park(parker, deadline, QueueEnd::kBack);
      mine = ended == Ended::kRole;
    }
    if (ended == Ended::kDeadline) return parker.take();
  }
}

// ---- holding

ConsumerRole::Ended ConsumerRole::hold(Parker& parker, Deadline deadline, Handler& handler) {
  doorbell_.publish_cpu();
  std::uint32_t idle = 0;
  Deadline idle_since{};
  for (;;) {
    const int done = inbox_.poll(handler, kPollBudget);
    if (parker.notified()) return Ended::kNotified;
    if (urgent_.load(std::memory_order_seq_cst) != 0) return Ended::kWanted;
    if (done > 0) {
      idle = 0;
      if (deadline != kNoDeadline && Clock::now() >= deadline) return Ended::kDeadline;
    } else if (!pause_or_sleep(parker, deadline, idle, idle_since)) {
      return Ended::kDeadline;
    }
  }
}

// Nothing came: waits a moment, ever longer. False when the deadline has passed.
bool ConsumerRole::pause_or_sleep(Parker& parker, Deadline deadline, std::uint32_t& idle, Deadline& idle_since) {
  doorbell_.publish_cpu();
  const bool yield = inbox_.shares_cpu();
  if (yield && sparse_) {
    // Whoever waits for what we did last runs the sooner: a yield may well come back to us first.
    if (Clock::now() >= deadline) return false;
    sleep(parker, deadline);
    idle = 0;
    return true;
  }
  if (yield) {
    ::sched_yield();  // what we wait for can only happen when we let go of this CPU
  } else {
    pause_cpu();
  }
  if (++idle % (yield ? kYieldsPerLook : kPausesPerLook) != 0) return true;
  const auto now = Clock::now();
  if (now >= deadline) return false;
  if (idle <= kPausesPerLook) idle_since = now;
  if (now - idle_since < options_.spin) return true;
  sleep(parker, deadline);
  idle = 0;
  return true;
}

void ConsumerRole::sleep(Parker& parker, Deadline deadline) {
  const std::uint32_t seen = doorbell_.events();  // before all that follows: a waker changes it after its cause
  const auto state = parker.state_.fetch_or(Parker::kOnDoorbell, std::memory_order_seq_cst);
  if ((state & Parker::kNotified) == 0) {
    doorbell_.set_mode(ListenMode::kAsleep);
    if (!inbox_.ready() && urgent_.load(std::memory_order_seq_cst) == 0) {
      sleeps.add();
      const auto since = Clock::now();
      doorbell_.listen_sleep(seen, deadline);
      sparse_ = Clock::now() - since > options_.spin;
    }
    doorbell_.set_mode(ListenMode::kAwake);
  }
  parker.state_.fetch_and(~Parker::kOnDoorbell, std::memory_order_seq_cst);
}

void ConsumerRole::notify(Parker& parker) noexcept {
  ConsumerRole& role = *parker.role_;  // after the flag is set the parker may be gone
  auto* word = &parker.state_;
  const auto before = word->fetch_or(Parker::kNotified, std::memory_order_seq_cst);
  if (before & Parker::kNotified) return;
  if (before & Parker::kParked) futex_wake(word, 1, FutexScope::kThisProcess);
  if (before & Parker::kOnDoorbell) role.wake_holder();
}

// ---- passing by, and service

int ConsumerRole::try_drain(Handler& handler, int budget) {
  if (holder_.load(std::memory_order_relaxed) != nullptr) return 0;
  const void* nobody = nullptr;
  if (!holder_.compare_exchange_strong(nobody, my_token(), std::memory_order_seq_cst)) return 0;
  if (doorbell_.mode() == ListenMode::kUnheld && !inbox_.ready()) {
    // Nothing to do and nothing changed: give it back as it was, except to those who came meanwhile (NRO-2).
    holder_.store(nullptr, std::memory_order_seq_cst);
    if (somebody_waits() && try_take()) leave();
    return 0;
  }
  changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  doorbell_.set_mode(ListenMode::kAwake);
  const int done = inbox_.poll(handler, budget);
  leave();
  return done;
}

void ConsumerRole::arm_timer() {
  itimerspec when{};
  when.it_value.tv_nsec = std::max<long>(1, interval_.count());
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void ConsumerRole::attend_again() {
  changes_seen_ = changes_.load(std::memory_order_relaxed);
  arm_timer();
}

void ConsumerRole::service(Handler& handler) {
  std::uint64_t ticks = 0;
  const bool tick = ::read(timer_.get(), &ticks, sizeof(ticks)) > 0;
  empty_event(doorbell_.event_fd());
  attended_.store(true, std::memory_order_seq_cst);
  if (options_.grace.count() > 0) {
    if (service_ == Service::kIdle) {
      service_ = Service::kAttending;
      attendances.add();
      interval_ = options_.grace;
      return attend_again();
    }
    if (!tick) return;  // rung again while we attend: the timer runs
    if (changes_.load(std::memory_order_relaxed) != changes_seen_) {
      interval_ = std::min(2 * interval_, kIntervalMax);
      return attend_again();
    }
  }
  if (!try_take()) {
    // A thread has held it for all of this while. Mostly it listens, and leaves the doorbell fit for nobody when it
    // goes. But it may have gone meanwhile, or stand where it looks no more and the doorbell is UNHELD already (the
    // kernel took it off its core there): then we come again.
    attended_.store(false, std::memory_order_seq_cst);
    service_ = Service::kIdle;
    const bool held = holder_.load(std::memory_order_seq_cst) != nullptr;
    if (!held || doorbell_.unheld()) doorbell_.call_service();  // NRO-3, in this order
    return;
  }
  service_drains.add();
  for (int done = 0; done < kServiceBudget && urgent_.load(std::memory_order_relaxed) == 0;) {
    const int now = inbox_.poll(handler, kPollBudget);
    if (now == 0) break;
    done += now;
  }
  service_ = Service::kIdle;
  attended_.store(false, std::memory_order_seq_cst);
  leave();  // rings this thread again when there is more
}

}  // namespace troupe::net
