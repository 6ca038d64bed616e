// Member: this process's side of one group: the order of its operations, who carries them out, and its errors.
//
// Operations are carried out by whoever holds the *role*: the thread of a blocking operation when nothing is queued,
// else a thread in Work::wait without a timeout, else a helper thread. That one starts with the first operation for
// which it is needed (asynchronous ones, and those of fibers: GMB-6) and sleeps while nothing is queued.
//
//   run() ---- nothing queued, role free ---------------------------> carried out by the caller
//   start() -> queue ---- role taken by Work::wait or the helper ---> carried out in order; messages under way together
//
// Invariants
//   GMB-1  One thread holds the role; only it touches the communicator's run, split, hand_over, await, post, pump and
//          wait_messages, `active_` and `handed_`.
//   GMB-2  Operations begin in the order of the queue; a collective begins when the messages before it are done.
//   GMB-3  A Pending is done exactly once; after that its memory is not touched.
//   GMB-4  Whoever lets go of the role looks at the queue afterwards; whoever fills the queue looks at the role
//          afterwards.
//   GMB-5  What a device carries out is handed over in the order of the queue and ends in that order; whatever it does
//          not carry out waits until all of that is over.
//   GMB-6  No operation, a split neither, blocks the thread of a fiber: the helper carries it out, as other ranks may
//          be fibers there. (Exceptions: an operation of a call that was cancelled, until it has noticed; wait_on.)
//   GMB-7  An operation that is left by an exception has failed the group, so that no other rank waits for this one; on
//          the helper's thread the exception ends there.
// Thread rule: any thread or fiber.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collective/base/communicator.h"
#include <troupe/collective.h>

namespace troupe::collective::detail {

struct Pending {
  Operation operation;
  std::uint64_t number = 0;
  Clock::time_point deadline{};
  Transfer transfer;
  std::unique_ptr<LaunchNumber> launch_number;
  std::shared_ptr<Handed> handed;                 // under the member's lock
  Environment::Suspension* suspension = nullptr;  // of the fiber that waits; under the member's lock
  std::unique_ptr<Communicator> child;            // of a split; written before done
  std::atomic<bool> done{false};
  ErrorPtr error;  // written before done
};

struct MemberOptions {
  std::string group;
  Duration timeout = std::chrono::seconds(30);
  std::shared_ptr<Environment> environment = {};  // may be null
  // called once, when this rank first sees that the group has failed
  std::function<void(const Failure&)> on_failed = {};
};

class Member : public std::enable_shared_from_this<Member> {
 public:
  Member(std::unique_ptr<Communicator> communicator, MemberOptions options);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  Communicator& communicator() { return *communicator_; }
  const std::string& name() const { return options_.group; }
  Duration timeout() const { return options_.timeout; }

  void run(const Operation& operation);
  std::shared_ptr<Pending> start(Operation operation);
  /// False when the timeout expired; throws what the operation failed with.
  bool wait(Pending& pending, Duration timeout);
  bool done(Pending& pending);
  /// Later work on the stream comes after it; waits where memory of the CPU is concerned.
  void wait_on(Pending& pending, Stream stream);
  void abort(const std::string& reason);
  Group split(int color, int key, const OpOptions& options);

 private:
  bool take_role() {
    return !role_.load(std::memory_order_relaxed) && !role_.exchange(true, std::memory_order_seq_cst);
  }
  void release_role();
  std::shared_ptr<Pending> enqueue(Operation operation);
  void drain(const Pending* until, Environment* environment);
  bool drain_messages(Environment* environment, const Pending* until);
  void finish(const std::shared_ptr<Pending>& pending, ErrorPtr error);
  void wait_out(const std::shared_ptr<Pending>& pending);
  bool carry_out(Pending& pending, Patience& patience);
  bool run_handed(const Operation& operation, std::unique_ptr<LaunchNumber> number, Patience& patience);
  void hand(const std::shared_ptr<Pending>& pending, Environment* environment);
  void drain_handed(Environment* environment);
  void settle_handed();
  bool wait_suspended(Pending& pending, Environment::Suspension& suspension, Clock::time_point deadline);
  void start_helper();
  void help();
  void check(const Operation& operation) const;
  void check_usable(const Operation& operation, std::uint64_t number);
  void tell_failure(const Failure& failure);
  void interrupted() noexcept;
  void finish_failed(const std::shared_ptr<Pending>& pending) noexcept;
  CollectiveError error_of(const Operation& operation, std::uint64_t number);
  Duration timeout_of(const Operation& operation) const {
    return operation.options.timeout == kGroupTimeout ? options_.timeout : operation.options.timeout;
  }
  bool on_fiber() const;

  std::unique_ptr<Communicator> communicator_;
  MemberOptions options_;
  std::atomic<bool> role_{false};
  std::atomic<std::uint32_t> queued_{0};  // in queue_ and active_
  std::atomic<std::uint64_t> issued_{0};
  std::atomic<bool> told_failure_{false};
  std::mutex mutex_;
  std::condition_variable helper_wakes_, waiters_wake_;
  std::deque<std::shared_ptr<Pending>> queue_;
  std::vector<std::shared_ptr<Pending>> active_;  // messages under way (GMB-1)
  std::deque<std::shared_ptr<Pending>> handed_;   // with the device (GMB-1)
  std::atomic<int> waiters_{0};
  bool stopping_ = false;
  std::thread helper_;
};

}  // namespace troupe::collective::detail
