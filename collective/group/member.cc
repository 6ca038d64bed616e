#include "collective/group/member.h"

#include <algorithm>
#include <exception>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/group/arguments.h"
#include "core/base/thread.h"

namespace troupe::collective::detail {

namespace {
constexpr std::size_t kCountsShown = 64;
constexpr auto kCheckEvery = std::chrono::milliseconds(100);  // a thread that waits looks for a cancel this often
// with a device at once: staging memory is not without end
constexpr std::size_t kHandedMax = 64;

Clock::time_point after(Duration timeout) {
  const auto now = Clock::now();
  return timeout >= Clock::time_point::max() - now ? Clock::time_point::max() : now + timeout;
}
std::string beginning_of(const std::vector<std::size_t>& counts) {
  const std::size_t shown = std::min(counts.size(), kCountsShown);
  return fmt::format("{}{}", fmt::join(counts.begin(), counts.begin() + std::ptrdiff_t(shown), ", "),
                     shown < counts.size() ? ", ..." : "");
}
bool is_message(const Operation& operation) { return operation.kind == Kind::kSend || operation.kind == Kind::kRecv; }
Duration time_left(const Pending& pending) {
  return pending.deadline == Clock::time_point::max()
             ? kForever
             : std::max<Duration>(Duration::zero(), pending.deadline - Clock::now());
}
}  // namespace

Member::Member(std::unique_ptr<Communicator> communicator, MemberOptions options)
    : communicator_(std::move(communicator)), options_(std::move(options)) {}

Member::~Member() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  helper_wakes_.notify_all();
  if (helper_.joinable()) helper_.join();
}

bool Member::on_fiber() const { return options_.environment && options_.environment->on_fiber(); }

void Member::tell_failure(const Failure& failure) {
  if (options_.on_failed && !told_failure_.exchange(true)) options_.on_failed(failure);
}

/// In a catch clause: the call that waits was cancelled, its deadline passed, or it had no memory. That ends the group
/// (GMB-7); where not even that can be told, this process.
void Member::interrupted() noexcept {
  std::string what = "an exception";
  try {
    throw;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {}
  communicator_->fail({Reason::kAborted,
                       fmt::format("the call on rank {} was interrupted: {}", communicator_->rank(), what),
                       {}});
  if (const auto failure = communicator_->failure()) tell_failure(*failure);
}

CollectiveError Member::error_of(const Operation& operation, std::uint64_t number) {
  const Failure failure = communicator_->failure().value_or(Failure{Reason::kBackend, "no reason was given", {}});
  tell_failure(failure);
  // Signatures hold sums of counts only: each rank's error adds its own.
  const bool counted = failure.reason == Reason::kMismatch && !operation.counts.empty();
  return CollectiveError::from({failure.reason, options_.group, communicator_->epoch(), number,
                                kind_name(operation.kind), communicator_->rank(), failure.missing_ranks},
                               counted ? fmt::format("{}; the counts of rank {} are {}", failure.text,
                                                     communicator_->rank(), beginning_of(operation.counts))
                                       : failure.text);
}

void Member::check_usable(const Operation& operation, std::uint64_t number) {
  if (!communicator_->stale()) return;
  throw CollectiveError::from({Reason::kStale,
                               options_.group,
                               communicator_->epoch(),
                               number,
                               kind_name(operation.kind),
                               communicator_->rank(),
                               {}},
                              "the group has been formed again or destroyed: look it up anew");
}

/// GR-2
void Member::check(const Operation& operation) const {
  check_arguments(operation, {communicator_->rank(), communicator_->size(), communicator_->takes_device_memory()});
  communicator_->check_memory(operation);
}

void Member::run(const Operation& operation) {
  check(operation);
  if (queued_.load(std::memory_order_relaxed) == 0 && !is_message(operation) && !on_fiber() && take_role()) {
    struct Role { Member& member; ~Role() { member.release_role(); } } role{*this};
    if (queued_.load(std::memory_order_seq_cst) == 0) {
      const std::uint64_t number = issued_.fetch_add(1, std::memory_order_relaxed) + 1;
      check_usable(operation, number);
      Patience patience(timeout_of(operation), options_.environment.get());
      try {
        const bool handing = communicator_->hands_over(operation);
        if (handing ? run_handed(operation, communicator_->take_number(), patience)
                    : communicator_->run(operation, patience))
          return;
      } catch (...) {
        interrupted();
        throw;
      }
      throw error_of(operation, number);
    }
  }
  wait_out(enqueue(operation));
}

/// Waits to its end, also when this call is interrupted: the group has failed by that, and the memory is the caller's
/// again once the operation has noticed.
void Member::wait_out(const std::shared_ptr<Pending>& pending) {
  try {
    wait(*pending, kForever);
  } catch (...) {
    while (!pending->done.load(std::memory_order_acquire)) {
      std::unique_lock lock(mutex_);
      if (!role_.load(std::memory_order_seq_cst)) start_helper(), helper_wakes_.notify_one();
      waiters_wake_.wait_for(lock, kCheckEvery, [&] { return pending->done.load(std::memory_order_acquire); });
    }
    throw;
  }
}

std::shared_ptr<Pending> Member::start(Operation operation) {
  check(operation);
  std::shared_ptr<Pending> pending = enqueue(std::move(operation));
  std::lock_guard lock(mutex_);
  start_helper();
  helper_wakes_.notify_one();
  return pending;
}

std::shared_ptr<Pending> Member::enqueue(Operation operation) {
  auto pending = std::make_shared<Pending>();
  pending->operation = std::move(operation);
  pending->deadline = after(timeout_of(pending->operation));
  const Operation& op = pending->operation;
  if (is_message(op)) {
    const std::size_t element = op.type == DType::kF64 || op.type == DType::kI64 || op.type == DType::kU64 ? 8
                                : op.type == DType::kF16 || op.type == DType::kBF16               ? 2
                                : op.type == DType::kI8 || op.type == DType::kU8                  ? 1
                                                                                                  : 4;
    pending->transfer = {.sends = op.kind == Kind::kSend,
                         .peer = op.peer,
                         .tag = op.tag,
                         .type = op.type,
                         .from = static_cast<const std::byte*>(op.in),
                         .to = static_cast<std::byte*>(op.out),
                         .stream = op.options.stream,
                         .bytes = op.in_count * element,
                         .deadline = pending->deadline};
  }
  {
    std::lock_guard lock(mutex_);
    pending->number = issued_.fetch_add(1, std::memory_order_relaxed) + 1;
    check_usable(op, pending->number);
    if (!is_message(op) && communicator_->hands_over(op)) pending->launch_number = communicator_->take_number();
    queue_.push_back(pending);
    queued_.fetch_add(1, std::memory_order_seq_cst);
  }
  if (role_.load(std::memory_order_seq_cst)) communicator_->nudge();  // GMB-4
  return pending;
}

void Member::release_role() {
  role_.store(false, std::memory_order_seq_cst);
  if (queued_.load(std::memory_order_seq_cst) == 0 && waiters_.load(std::memory_order_seq_cst) == 0) return;
  std::lock_guard lock(mutex_);
  helper_wakes_.notify_one();
  waiters_wake_.notify_all();
}

bool Member::wait(Pending& pending, Duration timeout) {
  if (!pending.done.load(std::memory_order_acquire)) {
    const auto deadline = timeout == kForever ? Clock::time_point::max() : after(timeout);
    Environment* environment = options_.environment.get();
    if (auto suspension = environment ? environment->suspension() : nullptr) {
      if (!wait_suspended(pending, *suspension, deadline)) return false;
    } else {
      while (!pending.done.load(std::memory_order_acquire)) {
        // Who must stop waiting before the operation does cannot carry it out.
        if (timeout == kForever && take_role()) {
          struct Role { Member& member; ~Role() { member.release_role(); } } role{*this};
          try {
            drain(&pending, environment);
          } catch (...) {
            interrupted();
            throw;
          }
          continue;
        }
        if (environment) {
          try {
            environment->check();
          } catch (...) {
            interrupted();
            throw;
          }
        }
        if (Clock::now() >= deadline) return false;
        std::unique_lock lock(mutex_);
        waiters_.fetch_add(1, std::memory_order_seq_cst);
        waiters_wake_.wait_until(lock, std::min(deadline, Clock::now() + kCheckEvery), [&] {
          return pending.done.load(std::memory_order_acquire) ||
                 (timeout == kForever && !role_.load(std::memory_order_seq_cst));
        });
        waiters_.fetch_sub(1, std::memory_order_seq_cst);
      }
    }
  }
  if (pending.error) pending.error->raise();
  return true;
}

bool Member::wait_suspended(Pending& pending, Environment::Suspension& suspension, Clock::time_point deadline) {
  const auto attach = [&](Environment::Suspension* to) {
    std::lock_guard lock(mutex_);
    if (to) start_helper(), helper_wakes_.notify_one();
    pending.suspension = to;
  };
  attach(&suspension);
  try {
    while (!pending.done.load(std::memory_order_acquire))
      if (!suspension.wait(deadline) && Clock::now() >= deadline) break;
  } catch (...) {
    attach(nullptr);
    interrupted();
    throw;
  }
  attach(nullptr);
  return pending.done.load(std::memory_order_acquire);
}

bool Member::done(Pending& pending) { return pending.done.load(std::memory_order_acquire); }

void Member::abort(const std::string& reason) {
  const Failure why{Reason::kAborted, fmt::format("rank {} said: {}", communicator_->rank(), reason), {}};
  communicator_->fail(why);
  tell_failure(why);
}

void Member::finish(const std::shared_ptr<Pending>& pending, ErrorPtr error) {
  std::lock_guard lock(mutex_);
  pending->error = std::move(error);
  queued_.fetch_sub(1, std::memory_order_seq_cst);
  pending->done.store(true, std::memory_order_release);  // GMB-3
  if (pending->suspension) pending->suspension->notify();
  if (waiters_.load(std::memory_order_seq_cst) != 0) waiters_wake_.notify_all();
}

/// The group has failed. Where there is no memory for the error, this process ends: whoever waits must be told.
void Member::finish_failed(const std::shared_ptr<Pending>& pending) noexcept {
  finish(pending, std::make_shared<const CollectiveError>(error_of(pending->operation, pending->number)));
}

/// Moves the messages under way; true when all are done, false when the caller should look again.
bool Member::drain_messages(Environment* environment, const Pending* until) {
  const bool moved = communicator_->pump();
  auto next_deadline = Clock::time_point::max();
  const auto now = moved ? Clock::time_point{} : Clock::now();
  for (const auto& one : active_) {
    next_deadline = std::min(next_deadline, one->deadline);
    if (!one->transfer.done && now >= one->deadline)
      communicator_->fail({Reason::kTimeout,
                           fmt::format("rank {} waited too long for rank {} in {}", communicator_->rank(),
                                       one->operation.peer, kind_name(one->operation.kind)),
                           {one->operation.peer}});
  }
  const bool failed = communicator_->failure().has_value();
  std::erase_if(active_, [&](const std::shared_ptr<Pending>& one) {
    if (!one->transfer.done && !failed) return false;
    if (one->transfer.done) finish(one, nullptr);
    else finish_failed(one);
    return true;
  });
  if (active_.empty()) return true;
  if (!moved && !(until && until->done.load(std::memory_order_acquire)))
    communicator_->wait_messages(next_deadline, environment);
  return false;
}

/// The holder of the role: carries out what is queued, until `until` is done or nothing is left.
void Member::drain(const Pending* until, Environment* environment) {
  for (;;) {
    settle_handed();
    if (until && until->done.load(std::memory_order_acquire)) return;
    std::shared_ptr<Pending> next;
    {
      std::lock_guard lock(mutex_);
      while (handed_.empty() && !queue_.empty() && is_message(queue_.front()->operation)) {
        active_.reserve(active_.size() + 1);  // so that what was posted is kept
        communicator_->post(queue_.front()->transfer);
        active_.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      if (!queue_.empty()) next = queue_.front();
    }
    if (!active_.empty()) {  // GMB-2
      const bool all_done = drain_messages(environment, until);
      if (until && until->done.load(std::memory_order_acquire)) return;
      if (!all_done || !next) continue;
    }
    const bool handing = next && !is_message(next->operation) && communicator_->hands_over(next->operation);
    if (!handed_.empty() && (!handing || handed_.size() >= kHandedMax)) {  // GMB-5
      drain_handed(environment);
      continue;
    }
    if (!next) return;
    {
      std::lock_guard lock(mutex_);
      queue_.pop_front();
    }
    if (handing) {
      hand(next, environment);
      continue;
    }
    bool ok = false;
    try {
      const auto now = Clock::now();
      Patience patience(next->deadline == Clock::time_point::max()
                            ? kForever
                            : std::max<Duration>(Duration::zero(), next->deadline - now),
                        environment);
      ok = carry_out(*next, patience);
    } catch (...) {
      interrupted();
      finish_failed(next);
      throw;
    }
    if (ok) finish(next, nullptr);
    else finish_failed(next);
    if (until && until->done.load(std::memory_order_acquire)) return;
  }
}

void Member::start_helper() {
  if (helper_.joinable()) return;
  helper_ = start_thread([this] { help(); });
}

void Member::help() {
  const auto wanted = [&] {
    return stopping_ || (queued_.load(std::memory_order_seq_cst) != 0 && !role_.load(std::memory_order_seq_cst));
  };
  std::unique_lock lock(mutex_);
  for (;;) {
    helper_wakes_.wait(lock, wanted);
    if (stopping_) return;
    if (!take_role()) continue;
    lock.unlock();
    try {
      drain(nullptr, nullptr);
    } catch (...) {  // GMB-7: nobody stands above this thread
      interrupted();
    }
    release_role();
    lock.lock();
  }
}

bool Member::carry_out(Pending& pending, Patience& patience) {
  const Operation& operation = pending.operation;
  if (operation.kind != Kind::kSplit) return communicator_->run(operation, patience);
  pending.child = communicator_->split(operation.peer, operation.tag, patience);
  return !communicator_->failure();
}

/// In order with everything else, and carried out like it: a fiber is suspended, as other ranks may be fibers of the
/// same thread.
Group Member::split(int color, int key, const OpOptions& options) {
  Operation operation;
  operation.kind = Kind::kSplit;
  operation.peer = color;
  operation.tag = key;
  operation.options = options;
  const std::shared_ptr<Pending> pending = enqueue(operation);
  wait_out(pending);
  if (!pending->child) return Group();
  MemberOptions child_options = options_;
  child_options.on_failed = {};  // a child's failure is its own
  child_options.group = fmt::format("{}/{}", options_.group, color);
  return Group(std::make_shared<Member>(std::move(pending->child), std::move(child_options)));
}

// ------------------------------------------------------------------------------------------- what a device carries out

/// What a device carries out, from beginning to end.
bool Member::run_handed(const Operation& operation, std::unique_ptr<LaunchNumber> number, Patience& patience) {
  const std::shared_ptr<Handed> handed = communicator_->hand_over(operation, std::move(number), patience);
  if (!handed) return false;
  std::exception_ptr interrupted;
  while (!handed->over()) {
    try {
      communicator_->await(*handed, patience);
    } catch (...) {  // the group has failed by that; the memory is the caller's again when the device has let go of it
      interrupted = std::current_exception();
      patience = Patience(patience.timeout(), nullptr);
    }
  }
  const bool ok = handed->settle();
  if (interrupted) std::rethrow_exception(interrupted);
  return ok;
}

/// Gives the next one to the device.
void Member::hand(const std::shared_ptr<Pending>& pending, Environment* environment) {
  std::shared_ptr<Handed> handed;
  try {
    handed_.push_back(pending);  // before a device has it
    Patience patience(time_left(*pending), environment);
    handed = communicator_->hand_over(pending->operation, std::move(pending->launch_number), patience);
  } catch (...) {
    interrupted();
    if (!handed_.empty() && handed_.back() == pending) handed_.pop_back();
    finish_failed(pending);
    throw;
  }
  if (!handed) {
    handed_.pop_back();
    return finish_failed(pending);
  }
  std::lock_guard lock(mutex_);
  pending->handed = std::move(handed);
  waiters_wake_.notify_all();
}

/// GMB-5: in order.
void Member::settle_handed() {
  while (!handed_.empty() && handed_.front()->handed->over()) {
    const std::shared_ptr<Pending> first = std::move(handed_.front());
    handed_.pop_front();
    bool ok = false;
    try {
      ok = first->handed->settle();
    } catch (...) {
      interrupted();
      finish_failed(first);
      throw;
    }
    if (ok) finish(first, nullptr);
    else finish_failed(first);
  }
}

void Member::drain_handed(Environment* environment) {
  Pending& first = *handed_.front();
  Patience patience(time_left(first), environment);
  communicator_->await(*first.handed, patience);
}

void Member::wait_on(Pending& pending, Stream stream) {
  std::shared_ptr<Handed> handed;
  {
    std::unique_lock lock(mutex_);
    start_helper();
    helper_wakes_.notify_one();
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    const auto known = [&] {
      return pending.handed || pending.done.load(std::memory_order_acquire) ||
             !communicator_->hands_over(pending.operation);
    };
    while (!waiters_wake_.wait_for(lock, kCheckEvery, known)) {}  // the operation ends at its deadline
    waiters_.fetch_sub(1, std::memory_order_seq_cst);
    handed = pending.handed;
  }
  if (handed && !pending.done.load(std::memory_order_acquire) && handed->wait_on(stream)) return;
  (void)wait(pending, kForever);
}

}  // namespace troupe::collective::detail
