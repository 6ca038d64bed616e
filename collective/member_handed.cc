// What a device carries out: handed over, in order, and waited for.
#include <algorithm>
#include <exception>

#include "collective/member.h"

namespace troupe::collective::detail {

namespace {
constexpr auto kLookEvery = std::chrono::milliseconds(100);

Duration time_left(const Pending& pending) {
  return pending.deadline == Clock::time_point::max() ? kForever : std::max<Duration>(Duration::zero(), pending.deadline - Clock::now());
}
}  // namespace

/// What a device carries out, from beginning to end.
bool Member::run_handed(const Operation& operation, std::unique_ptr<Turn> turn, Patience& patience) {
  const std::shared_ptr<Handed> handed = communicator_->hand_over(operation, std::move(turn), patience);
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
    Patience patience(time_left(*pending), environment);
    handed = communicator_->hand_over(pending->operation, std::move(pending->turn), patience);
  } catch (...) {  // this thread was interrupted, and the group has failed by that
    finish(pending, std::make_shared<const CollectiveError>(error_of(pending->operation, pending->number)));
    throw;
  }
  if (!handed) return finish(pending, std::make_shared<const CollectiveError>(error_of(pending->operation, pending->number)));
  handed_.push_back(pending);
  std::lock_guard lock(mutex_);
  pending->handed = std::move(handed);
  waiters_wake_.notify_all();
}

/// MB-5: in order.
void Member::settle_handed() {
  while (!handed_.empty() && handed_.front()->handed->over()) {
    const std::shared_ptr<Pending> first = std::move(handed_.front());
    handed_.pop_front();
    finish(first, first->handed->settle() ? nullptr : std::make_shared<const CollectiveError>(error_of(first->operation, first->number)));
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
    const auto known = [&] { return pending.handed || pending.done.load(std::memory_order_acquire) || !communicator_->hands_over(pending.operation); };
    while (!waiters_wake_.wait_for(lock, kLookEvery, known)) {}  // the operation ends at its deadline
    waiters_.fetch_sub(1, std::memory_order_seq_cst);
    handed = pending.handed;
  }
  if (handed && !pending.done.load(std::memory_order_acquire) && handed->wait_on(stream)) return;
  (void)wait(pending, kForever);
}

}  // namespace troupe::collective::detail
