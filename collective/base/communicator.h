// Communicator: what a backend offers, untyped: bytes, element type, operation, rank and size. Group and Member stand
// above it and know nothing of how bytes travel.
//
// Invariants
//   CM-1  run() and the messages are called by one thread at a time (whoever holds the member's role); they may throw
//         what Patience::check throws, and where memory or descriptors are short: the member fails the group then.
//   CM-2  false means that the group has failed; failure() says why, the same on all ranks that can be reached.
//   CM-3  The user's memory is touched only inside run(), pump() and Handed::settle(), by the calling thread, and by a
//         device between hand_over() and the moment when Handed::over() says so.
// Thread rule: fail(), nudge(), failure(), take_number(), and what only tells (rank, size, backend, epoch, stale,
// hands_over, takes_device_memory, check_memory) from any thread; the rest see CM-1.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "collective/base/failure.h"
#include "collective/base/signature.h"
#include <troupe/collective_types.h>

namespace troupe::collective {

using Clock = std::chrono::steady_clock;

/// What a wait knows of the world around it: implemented by the runtime's binding, and trivially where there is no
/// runtime.
class Environment {
 public:
  /// How a fiber waits; notify() from any thread. wait() throws when the call is cancelled.
  class Suspension {
   public:
    virtual ~Suspension() = default;
    virtual void notify() noexcept = 0;
    virtual bool wait(Clock::time_point deadline) = 0;
  };
  virtual ~Environment() = default;
  virtual bool on_fiber() = 0;
  /// Null when the caller is a thread that may block.
  virtual std::unique_ptr<Suspension> suspension() = 0;
  /// Throws when the task or call that runs on this thread is cancelled.
  virtual void check() = 0;
};

/// How long an operation may wait for others: the time runs from the first wait that is long, for only there is the
/// clock read.
class Patience {
 public:
  Patience(Duration timeout, Environment* environment) : timeout_(timeout), environment_(environment) {}
  Clock::time_point deadline() {
    if (!known_) {
      const auto now = Clock::now();
      deadline_ = timeout_ >= Clock::time_point::max() - now ? Clock::time_point::max() : now + timeout_;
      known_ = true;
    }
    return deadline_;
  }
  Duration timeout() const { return timeout_; }
  void check() const { if (environment_) environment_->check(); }

 private:
  Duration timeout_;
  Environment* environment_;
  Clock::time_point deadline_{};
  bool known_ = false;
};

/// A message under way.
struct Transfer {
  bool sends = false;
  int peer = 0, tag = 0;
  detail::DType type{};
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  Stream stream = {};  ///< what it comes after, where the memory is a device's
  std::size_t bytes = 0, moved = 0;
  bool begun = false, done = false;
  Clock::time_point deadline{};
};

/// An operation that a device carries out after it was handed over.
class Handed {
 public:
  virtual ~Handed() = default;
  /// Is the device through with it, or will it never be? Any thread.
  virtual bool over() = 0;
  /// Once, when it is over: brings the result to where it was asked for. False: the group has failed.
  virtual bool settle() = 0;
  /// Later work on the stream comes after this operation. False: it is not one of the device's memory; wait for it. Any
  /// thread.
  virtual bool wait_on(Stream stream) = 0;
};

/// The number of an operation in the order in which a device is given those of all groups on it.
class LaunchNumber {
 public:
  virtual ~LaunchNumber() = default;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Backend backend() const = 0;
  virtual std::uint64_t epoch() const = 0;

  /// One operation of all ranks; its arguments are valid by themselves.
  virtual bool run(const detail::Operation& operation, Patience& patience) = 0;
  /// A barrier which all ranks know by this signature: before an operation that is carried out by other means. Where a
  /// rank has come to something else, with these means or the others, it is the mismatch that run() would have found.
  virtual bool agree_on(const Signature& what, Patience& patience) = 0;

  /// Is this operation one for hand_over()?
  virtual bool hands_over(const detail::Operation&) const { return false; }
  /// Taken when an operation that is handed over is issued, so that the order of the program is kept over all groups.
  virtual std::unique_ptr<LaunchNumber> take_number() { return nullptr; }
  /// Instead of run(): returns when the device has it. Null: the group has failed.
  virtual std::shared_ptr<Handed> hand_over(const detail::Operation&, std::unique_ptr<LaunchNumber>, Patience&) {
    return nullptr;
  }
  /// Waits until it is over, nudge() was called, or a moment has passed; at the deadline the group fails.
  virtual void await(Handed&, Patience&) {}
  /// May there be DeviceArrays among the memory? What is wrong with them all the same is for check_memory() and run()
  /// to say.
  virtual bool takes_device_memory() const { return false; }
  /// Throws InvalidArgumentError for memory that this backend cannot reach.
  virtual void check_memory(const detail::Operation&) const {}

  /// Takes a message into the set of those under way; it lives until it is done or the group has failed.
  virtual void post(Transfer& transfer) = 0;
  /// Moves what can be moved without waiting. True when anything moved.
  virtual bool pump() = 0;
  /// Waits until pump() may have something to do, nudge() was called, or the deadline passed. False: the group has
  /// failed.
  virtual bool wait_messages(Clock::time_point deadline, Environment* environment) = 0;
  /// Any thread: whoever is in wait_messages() returns from it and looks at the queue.
  virtual void nudge() = 0;

  /// The group has been formed again or forgotten: this epoch is of the past.
  virtual bool stale() = 0;
  virtual void fail(const Failure& failure) = 0;
  virtual std::optional<Failure> failure() = 0;
  /// A communicator of the ranks with the same color; null for a negative color. A failure sets this one's failure.
  virtual std::unique_ptr<Communicator> split(int color, int key, Patience& patience) = 0;
};

}  // namespace troupe::collective
