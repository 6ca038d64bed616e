// Errors: one class a kind of failure, all derived from troupe::Error, which is a std::runtime_error.
//
// Inside the runtime an error is a value (Result<T>, Status); it is thrown only at the user's door, by the function
// that the user called (get throws, try_get returns). An error crosses processes as an ErrorRecord and is rebuilt there
// with its real type, so `catch (const troupe::ActorDiedError&)` works wherever the failure happened.
//
// Thread rule: errors are immutable after construction and may be shared between threads.
//
// Invariants
//   ER-1  code() identifies the class: rebuilding from a record gives the class that wrote it.
//   ER-2  what() is message() first, then where it happened when that is known.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <typeinfo>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What kind of failure an error is. The numbers are on the wire: never renumber.
enum class ErrorCode : std::uint16_t {
  kUser = 1,               ///< made by the user: Error("text")
  kTask = 2,               ///< the function or method threw
  kWorkerCrashed = 3,      ///< the process died: signal or exit code in the message
  kNodeDied = 4,           ///< the machine is gone or was declared dead
  kOutOfMemory = 5,        ///< killed by the memory monitor or the kernel
  kActorDied = 6,          ///< dead for good, or the call was interrupted by a death
  kActorUnavailable = 7,   ///< for programs' own use: calls to an actor that restarts wait, or fail as kActorDied
  kActorNotFound = 8,      ///< no actor of that name
  kPendingCallsLimit = 9,  ///< max_pending_calls reached
  kObjectLost = 10,        ///< no copy is left and none can be made
  kOwnerDied = 11,         ///< the process that owned the object is gone
  kObjectStoreFull = 12,   ///< larger than the store, or no room in time
  kOutOfDisk = 13,         ///< spilling found no space
  kGetTimeout = 14,        ///< the reader's deadline passed; the task goes on
  kDeadlineExceeded = 15,  ///< the task's or call's own deadline passed
  kCancelled = 16,         ///< cancelled by request, or by the end of its parent
  kInfeasible = 17,        ///< a hard constraint that can never hold
  kSerialization = 18,     ///< bytes that do not decode, or a value that does not encode
  kInvalidArgument = 19,   ///< the caller's mistake
  kNotFound = 20,          ///< no such thing
  kUnauthenticated = 21,   ///< wrong or missing token, foreign build, foreign cluster
  kRuntimeEnv = 22,        ///< the environment of a worker could not be made
  kCollective = 23,        ///< a collective operation failed
};

/// The name of a code as the class spells it, e.g. "TaskError".
const char* error_name(ErrorCode code);

/// Whether an interrupted call can have run.
enum class Outcome : std::uint8_t { kNotExecuted = 0, kUnknown = 1 };

/// Where and when a failure happened; members are empty or 0 when unknown.
struct ErrorContext {
  std::string function;  ///< demangled name of the function or method
  std::string task_id, actor_id, node;
  int pid = 0;
  int attempt = 0;  ///< 0 at the first run
  std::vector<std::string> log_tail;  ///< last lines of the process's output, oldest first
};

/// Everything an error carries, as plain data: this is what is sent.
struct ErrorRecord {
  ErrorCode code = ErrorCode::kUser;
  std::string message;
  ErrorContext context;
  std::string type_name;               ///< TaskError: the demangled type that was thrown
  std::vector<std::string> type_bases; ///< TaskError: mangled names of the type and its known standard bases
  Outcome outcome = Outcome::kUnknown; ///< ActorDiedError
  std::vector<std::string> details;    ///< fields of error classes of other libraries (CollectiveError)
};

/// Base of all errors. Users may construct it: its code is then kUser.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
  explicit Error(ErrorRecord record);

  ErrorCode code() const noexcept { return record_->code; }
  const std::string& message() const noexcept { return record_->message; }
  const ErrorContext& context() const noexcept { return record_->context; }
  const ErrorRecord& record() const noexcept { return *record_; }

  /// A copy with its real type, shared. An unknown code gives a plain Error.
  static std::shared_ptr<const Error> make(ErrorRecord record);
  /// Throws a copy of this error with its real type.
  [[noreturn]] virtual void raise() const { throw *this; }

 private:
  std::shared_ptr<const ErrorRecord> record_;
};

namespace detail {
/// The shape that all error classes share: Name("text") or from a record.
template <class Self, ErrorCode kCode>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(std::string message)
      : Error(ErrorRecord{kCode, std::move(message), {}, {}, {}, Outcome::kUnknown, {}}) {}
  explicit ErrorOf(ErrorRecord record) : Error(std::move(record)) {}
  [[noreturn]] void raise() const override { throw static_cast<const Self&>(*this); }
};
}  // namespace detail

/// The function or method threw an exception.
class TaskError : public detail::ErrorOf<TaskError, ErrorCode::kTask> {
 public:
  using ErrorOf::ErrorOf;
  /// Demangled name of the type that was thrown, e.g. "std::out_of_range".
  const std::string& type_name() const noexcept { return record().type_name; }
  /// Was it an E? Knows the standard exceptions with their bases, and the thrown type itself.
  template <class E> bool is() const { return is_type(typeid(E).name()); }

 private:
  bool is_type(const char* mangled) const;
};

/// The actor is dead for good, or died while the call was under way.
class ActorDiedError : public detail::ErrorOf<ActorDiedError, ErrorCode::kActorDied> {
 public:
  using ErrorOf::ErrorOf;
  /// kNotExecuted: the call certainly did not begin. kUnknown: it may have run, wholly or in part.
  Outcome outcome() const noexcept { return record().outcome; }
};

class WorkerCrashedError : public detail::ErrorOf<WorkerCrashedError, ErrorCode::kWorkerCrashed> {
 public:
  using ErrorOf::ErrorOf;
};
class NodeDiedError : public detail::ErrorOf<NodeDiedError, ErrorCode::kNodeDied> { public: using ErrorOf::ErrorOf; };
class OutOfMemoryError : public detail::ErrorOf<OutOfMemoryError, ErrorCode::kOutOfMemory> {
 public:
  using ErrorOf::ErrorOf;
};
class ActorUnavailableError : public detail::ErrorOf<ActorUnavailableError, ErrorCode::kActorUnavailable> {
 public:
  using ErrorOf::ErrorOf;
};
class ActorNotFoundError : public detail::ErrorOf<ActorNotFoundError, ErrorCode::kActorNotFound> {
 public:
  using ErrorOf::ErrorOf;
};
class PendingCallsLimitError : public detail::ErrorOf<PendingCallsLimitError, ErrorCode::kPendingCallsLimit> {
 public:
  using ErrorOf::ErrorOf;
};
class ObjectLostError : public detail::ErrorOf<ObjectLostError, ErrorCode::kObjectLost> {
 public:
  using ErrorOf::ErrorOf;
};
class OwnerDiedError : public detail::ErrorOf<OwnerDiedError, ErrorCode::kOwnerDied> {
 public:
  using ErrorOf::ErrorOf;
};
class ObjectStoreFullError : public detail::ErrorOf<ObjectStoreFullError, ErrorCode::kObjectStoreFull> {
 public:
  using ErrorOf::ErrorOf;
};
class OutOfDiskError : public detail::ErrorOf<OutOfDiskError, ErrorCode::kOutOfDisk> {
 public:
  using ErrorOf::ErrorOf;
};
class GetTimeoutError : public detail::ErrorOf<GetTimeoutError, ErrorCode::kGetTimeout> {
 public:
  using ErrorOf::ErrorOf;
};
class DeadlineExceededError : public detail::ErrorOf<DeadlineExceededError, ErrorCode::kDeadlineExceeded> {
 public:
  using ErrorOf::ErrorOf;
};
class CancelledError : public detail::ErrorOf<CancelledError, ErrorCode::kCancelled> {
 public:
  using ErrorOf::ErrorOf;
};
class InfeasibleError : public detail::ErrorOf<InfeasibleError, ErrorCode::kInfeasible> {
 public:
  using ErrorOf::ErrorOf;
};
class SerializationError : public detail::ErrorOf<SerializationError, ErrorCode::kSerialization> {
 public:
  using ErrorOf::ErrorOf;
};
class InvalidArgumentError : public detail::ErrorOf<InvalidArgumentError, ErrorCode::kInvalidArgument> {
 public:
  using ErrorOf::ErrorOf;
};
class NotFoundError : public detail::ErrorOf<NotFoundError, ErrorCode::kNotFound> { public: using ErrorOf::ErrorOf; };
class UnauthenticatedError : public detail::ErrorOf<UnauthenticatedError, ErrorCode::kUnauthenticated> {
 public:
  using ErrorOf::ErrorOf;
};
class RuntimeEnvError : public detail::ErrorOf<RuntimeEnvError, ErrorCode::kRuntimeEnv> {
 public:
  using ErrorOf::ErrorOf;
};

}  // namespace troupe
