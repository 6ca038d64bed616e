#include <troupe/error.h>
#include <troupe/result.h>

#include <gtest/gtest.h>

#include "core/base/error_registry.h"

namespace troupe {
namespace {

constexpr int kLastCode = 23;

ErrorRecord record_of(ErrorCode code) {
  ErrorRecord record;
  record.code = code;
  record.message = "it broke";
  return record;
}

template <class E>
bool rebuilds_as(ErrorCode code) {
  return dynamic_cast<const E*>(Error::make(record_of(code)).get()) != nullptr;
}

// ER-1: code() identifies the class.
TEST(Error, IsRebuiltWithItsRealType) {
  EXPECT_TRUE(rebuilds_as<TaskError>(ErrorCode::kTask));
  EXPECT_TRUE(rebuilds_as<WorkerCrashedError>(ErrorCode::kWorkerCrashed));
  EXPECT_TRUE(rebuilds_as<NodeDiedError>(ErrorCode::kNodeDied));
  EXPECT_TRUE(rebuilds_as<OutOfMemoryError>(ErrorCode::kOutOfMemory));
  EXPECT_TRUE(rebuilds_as<ActorDiedError>(ErrorCode::kActorDied));
  EXPECT_TRUE(rebuilds_as<ActorUnavailableError>(ErrorCode::kActorUnavailable));
  EXPECT_TRUE(rebuilds_as<ActorNotFoundError>(ErrorCode::kActorNotFound));
  EXPECT_TRUE(rebuilds_as<PendingCallsLimitError>(ErrorCode::kPendingCallsLimit));
  EXPECT_TRUE(rebuilds_as<ObjectLostError>(ErrorCode::kObjectLost));
  EXPECT_TRUE(rebuilds_as<OwnerDiedError>(ErrorCode::kOwnerDied));
  EXPECT_TRUE(rebuilds_as<ObjectStoreFullError>(ErrorCode::kObjectStoreFull));
  EXPECT_TRUE(rebuilds_as<OutOfDiskError>(ErrorCode::kOutOfDisk));
  EXPECT_TRUE(rebuilds_as<GetTimeoutError>(ErrorCode::kGetTimeout));
  EXPECT_TRUE(rebuilds_as<DeadlineExceededError>(ErrorCode::kDeadlineExceeded));
  EXPECT_TRUE(rebuilds_as<CancelledError>(ErrorCode::kCancelled));
  EXPECT_TRUE(rebuilds_as<InfeasibleError>(ErrorCode::kInfeasible));
  EXPECT_TRUE(rebuilds_as<SerializationError>(ErrorCode::kSerialization));
  EXPECT_TRUE(rebuilds_as<InvalidArgumentError>(ErrorCode::kInvalidArgument));
  EXPECT_TRUE(rebuilds_as<NotFoundError>(ErrorCode::kNotFound));
  EXPECT_TRUE(rebuilds_as<UnauthenticatedError>(ErrorCode::kUnauthenticated));
  EXPECT_TRUE(rebuilds_as<RuntimeEnvError>(ErrorCode::kRuntimeEnv));
  for (int code = 1; code <= kLastCode; ++code)
    EXPECT_EQ(Error::make(record_of(ErrorCode(code)))->code(), ErrorCode(code));
}

TEST(Error, OfUnknownCodeIsAPlainErrorThatKeepsItsRecord) {
  for (const int code : {0, kLastCode + 1, 63, 64, 65535}) {
    const auto error = Error::make(record_of(ErrorCode(code)));
    const Error& plain = *error;
    EXPECT_EQ(typeid(plain), typeid(Error));
    EXPECT_EQ(error->message(), "it broke");
  }
}

class ForeignError : public detail::ErrorOf<ForeignError, ErrorCode(40)> {
 public:
  using ErrorOf::ErrorOf;
};

TEST(Error, OfAnotherLibraryIsRebuiltOnceItHasRegistered) {
  EXPECT_FALSE(rebuilds_as<ForeignError>(ErrorCode(40)));
  detail::register_error(ErrorCode(40), "ForeignError", [](ErrorRecord r) -> std::shared_ptr<const Error> {
    return std::make_shared<const ForeignError>(std::move(r));
  });
  EXPECT_TRUE(rebuilds_as<ForeignError>(ErrorCode(40)));
  EXPECT_STREQ(error_name(ErrorCode(40)), "ForeignError");
}

[[gnu::noinline]] Result<int> failed() { return Error::make(record_of(ErrorCode::kActorDied)); }

TEST(Error, IsThrownWithItsRealTypeFromAResult) {
  const Result<int> result = failed();
  EXPECT_FALSE(result.ok());
  EXPECT_THROW((void)result.value(), ActorDiedError);
  EXPECT_EQ(result.value_or(-1), -1);
  EXPECT_THROW(Status(InfeasibleError("no such node")).value(), InfeasibleError);
}

TEST(Error, HasANameForEveryCode) {
  EXPECT_STREQ(error_name(ErrorCode::kUser), "Error");
  EXPECT_STREQ(error_name(ErrorCode::kTask), "TaskError");
  EXPECT_STREQ(error_name(ErrorCode::kCollective), "CollectiveError");
  for (int code = 2; code <= kLastCode; ++code) EXPECT_STRNE(error_name(ErrorCode(code)), "Error") << code;
}

// ER-2: message first, then the place as far as it is known.
TEST(Error, SaysWhatThenWhere) {
  EXPECT_STREQ(Error("text").what(), "text");
  EXPECT_EQ(Error("text").code(), ErrorCode::kUser);
  ErrorRecord record = record_of(ErrorCode::kWorkerCrashed);
  record.context.function = "shop::sell(int)";
  record.context.node = "2";
  record.context.pid = 77;
  record.context.attempt = 1;
  EXPECT_STREQ(WorkerCrashedError(record).what(), "it broke [function shop::sell(int), node 2, pid 77, attempt 1]");
  record.context = {};
  record.context.node = "2";
  EXPECT_STREQ(WorkerCrashedError(record).what(), "it broke [node 2]");
  record.message.clear();
  EXPECT_STREQ(WorkerCrashedError(record).what(), "[node 2]");
}

TEST(ActorDiedError, CarriesItsOutcome) {
  ErrorRecord record = record_of(ErrorCode::kActorDied);
  record.outcome = Outcome::kNotExecuted;
  EXPECT_EQ(ActorDiedError(record).outcome(), Outcome::kNotExecuted);
  EXPECT_EQ(ActorDiedError("gone").outcome(), Outcome::kUnknown);
}

}  // namespace
}  // namespace troupe
