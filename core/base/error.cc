#include <troupe/error.h>

#include <algorithm>

#include "core/base/error_registry.h"

namespace troupe {
namespace {

using Maker = std::shared_ptr<const Error> (*)(ErrorRecord);

template <class E>
std::shared_ptr<const Error> make_one(ErrorRecord record) {
  return std::make_shared<const E>(std::move(record));
}

struct Kind {
  const char* name = nullptr;
  Maker maker = nullptr;
};

constexpr std::size_t kKinds = 64;  // codes are few and dense; the table leaves room for those of later versions

// One row a code. Constant initialization: libraries add their rows while static objects are made.
constinit Kind kinds[kKinds] = {
    {},
    {"Error", &make_one<Error>},
    {"TaskError", &make_one<TaskError>},
    {"WorkerCrashedError", &make_one<WorkerCrashedError>},
    {"NodeDiedError", &make_one<NodeDiedError>},
    {"OutOfMemoryError", &make_one<OutOfMemoryError>},
    {"ActorDiedError", &make_one<ActorDiedError>},
    {"ActorUnavailableError", &make_one<ActorUnavailableError>},
    {"ActorNotFoundError", &make_one<ActorNotFoundError>},
    {"PendingCallsLimitError", &make_one<PendingCallsLimitError>},
    {"ObjectLostError", &make_one<ObjectLostError>},
    {"OwnerDiedError", &make_one<OwnerDiedError>},
    {"ObjectStoreFullError", &make_one<ObjectStoreFullError>},
    {"OutOfDiskError", &make_one<OutOfDiskError>},
    {"GetTimeoutError", &make_one<GetTimeoutError>},
    {"DeadlineExceededError", &make_one<DeadlineExceededError>},
    {"CancelledError", &make_one<CancelledError>},
    {"InfeasibleError", &make_one<InfeasibleError>},
    {"SerializationError", &make_one<SerializationError>},
    {"InvalidArgumentError", &make_one<InvalidArgumentError>},
    {"NotFoundError", &make_one<NotFoundError>},
    {"UnauthenticatedError", &make_one<UnauthenticatedError>},
    {"RuntimeEnvError", &make_one<RuntimeEnvError>},
    {"CollectiveError", nullptr},  // made by the collective library, when it is linked
};

const Kind& kind_of(ErrorCode code) {
  const auto index = static_cast<std::size_t>(code);
  return kinds[index < kKinds ? index : 0];
}

// ER-2: the message, then where it happened as far as that is known.
std::string describe(const ErrorRecord& record) {
  const ErrorContext& at = record.context;
  std::string where;
  const auto add = [&where](const char* label, const std::string& value) {
    if (!where.empty()) where += ", ";
    where += label;
    where += value;
  };
  if (!record.type_name.empty()) add("type ", record.type_name);
  if (!at.function.empty()) add("function ", at.function);
  if (!at.node.empty()) add("node ", at.node);
  if (at.pid != 0) add("pid ", std::to_string(at.pid));
  if (at.pid != 0 || at.attempt != 0) add("attempt ", std::to_string(at.attempt));
  if (where.empty()) return record.message;
  return record.message + (record.message.empty() ? "[" : " [") + where + "]";
}

}  // namespace

const char* error_name(ErrorCode code) {
  const Kind& kind = kind_of(code);
  return kind.name ? kind.name : "Error";
}

namespace detail {
void register_error(ErrorCode code, const char* name, std::shared_ptr<const Error> (*maker)(ErrorRecord)) {
  const auto index = static_cast<std::size_t>(code);
  if (index < kKinds) kinds[index] = {name, maker};
}
}  // namespace detail

Error::Error(const std::string& message)
    : Error(ErrorRecord{ErrorCode::kUser, message, {}, {}, {}, Outcome::kUnknown, {}}) {}

Error::Error(ErrorRecord record)
    : std::runtime_error(describe(record)), record_(std::make_shared<const ErrorRecord>(std::move(record))) {}

std::shared_ptr<const Error> Error::make(ErrorRecord record) {
  const Maker maker = kind_of(record.code).maker;
  return maker ? maker(std::move(record)) : make_one<Error>(std::move(record));
}

bool TaskError::is_type(const char* mangled) const {
  return std::ranges::find(record().type_bases, mangled) != record().type_bases.end();
}

}  // namespace troupe
