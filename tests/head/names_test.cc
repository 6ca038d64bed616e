// Names: unique in a namespace, found, freed at death (AC-1, AC-5, AN-3 to AN-5, JB-2).
#include "head_fixture.h"

namespace troupe::head {
namespace {

using NamesTest = OneNode;
const ProcessId kWorker{1, 10}, kOther{1, 2};

TEST_F(NamesTest, AnActorIsFoundByItsNameAndHeldFromThatMoment) {
  ActorId id = live(spec(driver_, job_, "hits"), kWorker);
  auto found = ask<wire::NamedActorReply>(kOther, Method::kGetNamedActor, wire::NamedActor{"hits", "ns"});
  EXPECT_EQ(found.handle.actor, id);
  EXPECT_EQ(found.handle.class_name, "Counter");
  EXPECT_EQ(found.handle.name, "hits");
  drop_handle(driver_, id);
  EXPECT_TRUE(notices<wire::ResolveActor>(kWorker, Method::kActorHandlesGone).empty());
}

TEST_F(NamesTest, AnUnknownNameIsActorNotFound) {
  ErrorRecord error = ask_error(driver_, Method::kGetNamedActor, wire::NamedActor{"nobody", "ns"});
  EXPECT_EQ(error.code, ErrorCode::kActorNotFound);
  EXPECT_NE(error.message.find("nobody"), std::string::npos);
}

TEST_F(NamesTest, TheDriversNamespaceIsTheDefault) {
  ActorId id = live(spec(driver_, job_, "hits"), kWorker);
  EXPECT_EQ(ask<wire::NamedActorReply>(driver_, Method::kGetNamedActor, wire::NamedActor{"hits", ""}).handle.actor, id);
  EXPECT_EQ(row(id)["name_space"], "ns");
}

TEST_F(NamesTest, AnActorsNamespaceIsItsJobsDefault) {
  ActorId id = live(spec(driver_, job_, "hits"), kWorker);
  EXPECT_EQ(ask<wire::NamedActorReply>(kWorker, Method::kGetNamedActor, wire::NamedActor{"hits", ""}).handle.actor, id);
}

TEST_F(NamesTest, TwoDriversWithoutANamespaceDoNotSeeEachOther) {
  const ProcessId first{1, 5}, second{1, 6};
  JobId a = job(first), b = job(second);
  live(spec(first, a, "x"), {1, 40});
  ask_error(second, Method::kGetNamedActor, wire::NamedActor{"x", ""});
  live(spec(second, b, "x"), {1, 41});  // no clash
  EXPECT_EQ(list_actors({{"name", "x"}}).rows.size(), 2u);
}

TEST_F(NamesTest, ADuplicateIsTheCallersMistake) {
  live(spec(driver_, job_, "hits"), kWorker);
  ErrorRecord error = ask_error(kOther, Method::kCreateActor, spec(kOther, job_, "hits"));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("hits"), std::string::npos);
  wire::ActorSpec elsewhere = spec(kOther, job_, "hits");
  elsewhere.name_space = "other";
  ask<wire::CreateActorReply>(kOther, Method::kCreateActor, elsewhere);
}

TEST_F(NamesTest, GetIfExistsGivesTheOneThatIsThere) {
  ActorId id = live(spec(driver_, job_, "hits"), kWorker);
  wire::ActorSpec again = spec(kOther, job_, "hits");
  again.get_if_exists = true;
  auto reply = ask<wire::CreateActorReply>(kOther, Method::kCreateActor, again);
  EXPECT_TRUE(reply.existed);
  EXPECT_EQ(reply.handle.actor, id);
  EXPECT_EQ(state_.actors().holders(id), 2u);
  EXPECT_TRUE(starts(1).empty());
  wire::ActorSpec foreign = spec(kOther, job_, "hits");
  foreign.get_if_exists = true;
  foreign.class_name = "Adder";
  EXPECT_EQ(ask_error(kOther, Method::kCreateActor, foreign).code, ErrorCode::kInvalidArgument);
}

TEST_F(NamesTest, GetIfExistsCreatesWhenThereIsNone) {
  wire::ActorSpec fresh = spec(driver_, job_, "hits");
  fresh.get_if_exists = true;
  EXPECT_FALSE(ask<wire::CreateActorReply>(driver_, Method::kCreateActor, fresh).existed);
  EXPECT_EQ(starts(1).size(), 1u);
}

TEST_F(NamesTest, ANameIsFreeAfterDeath) {
  live(spec(driver_, job_, "hits"), kWorker);
  crash(kWorker);
  ask_error(driver_, Method::kGetNamedActor, wire::NamedActor{"hits", "ns"});
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, spec(driver_, job_, "hits"));
}

TEST_F(NamesTest, ACreationWaitsForTheEndOfTheOneBeforeIt) {
  ActorId old = live(spec(driver_, job_, "hits"), kWorker);
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{old, false});
  ask_error(driver_, Method::kGetNamedActor, wire::NamedActor{"hits", "ns"});
  wire::ActorSpec next = spec(driver_, job_, "hits"), third = spec(driver_, job_, "hits");
  std::uint64_t create = request(driver_, Method::kCreateActor, next),
                refused = request(driver_, Method::kCreateActor, third);
  EXPECT_FALSE(answer(driver_, create)) << "AC-1: its process may still live";
  crash(kWorker);
  auto reply = answer(driver_, create);
  ASSERT_TRUE(reply);
  EXPECT_EQ(std::get<wire::CreateActorReply>(*reply).handle.actor, next.id);
  auto error = answer(driver_, refused);
  ASSERT_TRUE(error);
  EXPECT_EQ(std::get<ErrorRecord>(*error).code, ErrorCode::kInvalidArgument);
}

// A look-up of a name whose holder ends, while the creation of its next holder waits for that.
class LookUpTest : public OneNode {
 protected:
  void SetUp() override {
    old_ = live(spec(driver_, job_, "hits"), kWorker);
    ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{old_, false});
  }
  std::uint64_t look_up(ProcessId who) { return request(who, Method::kGetNamedActor, wire::NamedActor{"hits", "ns"}); }
  static ErrorCode code_of(const std::optional<Message>& reply) {
    const auto* error = reply ? std::get_if<ErrorRecord>(&*reply) : nullptr;
    return error ? error->code : ErrorCode{};
  }
  ActorId old_;
};

TEST_F(LookUpTest, WaitsWithTheCreationThatWaitsForTheName) {
  const wire::ActorSpec next = spec(driver_, job_, "hits");
  const std::uint64_t created = request(driver_, Method::kCreateActor, next), asked = look_up(kOther);
  EXPECT_FALSE(answer(kOther, asked)) << "its maker may have said the name already";
  crash(kWorker);
  EXPECT_TRUE(answer(driver_, created));
  const auto found = answer(kOther, asked);
  ASSERT_TRUE(found && std::holds_alternative<wire::NamedActorReply>(*found));
  EXPECT_EQ(std::get<wire::NamedActorReply>(*found).handle.actor, next.id);
  EXPECT_EQ(state_.actors().holders(next.id), 2u) << "held from that moment";
}

TEST_F(LookUpTest, IsActorNotFoundWhenThatCreationFails) {
  const ProcessId second{1, 3};
  const JobId other_job = job(second, "ns");
  const std::uint64_t created = request(second, Method::kCreateActor, spec(second, other_job, "hits")),
                      asked = look_up(kOther), again = look_up(driver_);
  wire::JobFinished finished;
  finished.job = other_job;
  notice(second, Method::kJobFinished, finished);
  crash(kWorker);
  EXPECT_EQ(code_of(answer(second, created)), ErrorCode::kCancelled);
  EXPECT_EQ(code_of(answer(kOther, asked)), ErrorCode::kActorNotFound);
  EXPECT_EQ(code_of(answer(driver_, again)), ErrorCode::kActorNotFound);
}

TEST_F(LookUpTest, IsActorNotFoundWhenWhoeverCreatesHasDied) {
  const ProcessId second{1, 3};
  request(second, Method::kCreateActor, spec(second, job_, "hits"));
  const std::uint64_t asked = look_up(kOther);
  crash(second);
  crash(kWorker);
  EXPECT_EQ(code_of(answer(kOther, asked)), ErrorCode::kActorNotFound);
}

TEST_F(LookUpTest, OfOneThatHasDiedLeavesNothing) {
  const wire::ActorSpec next = spec(driver_, job_, "hits");
  request(driver_, Method::kCreateActor, next);
  const std::uint64_t asked = look_up(kOther);
  EXPECT_EQ(state_.actors().waiting_look_ups(), 1u);
  crash(kOther);
  EXPECT_EQ(state_.actors().waiting_look_ups(), 0u);
  crash(kWorker);
  EXPECT_FALSE(answer(kOther, asked));
  EXPECT_EQ(state_.actors().holders(next.id), 1u) << "its maker";
}

TEST_F(LookUpTest, OfOneWhoseNodeHasDiedLeavesNothing) {
  const ProcessId far{join(1), 1};
  request(driver_, Method::kCreateActor, spec(driver_, job_, "hits"));
  look_up(far);
  EXPECT_EQ(state_.actors().waiting_look_ups(), 1u);
  lose_link(far.node);
  pass(400ms);  // link_grace
  EXPECT_EQ(state_.actors().waiting_look_ups(), 0u);
}

TEST_F(LookUpTest, OfSeveralAllAreAnsweredAlsoWhenTheNextHolderEndsAtOnce) {
  wire::ActorSpec next = spec(driver_, job_, "hits"), third = spec(driver_, job_, "hits");
  next.resources.cpus = 100;  // it never starts
  request(driver_, Method::kCreateActor, next);
  const std::uint64_t first = look_up(kOther), second = look_up(driver_);
  drop_handle(driver_, next.id);  // before it was made
  crash(kWorker);
  EXPECT_EQ(code_of(answer(kOther, first)), ErrorCode::kActorNotFound);
  EXPECT_EQ(code_of(answer(driver_, second)), ErrorCode::kActorNotFound);
  EXPECT_EQ(state_.actors().waiting_look_ups(), 0u);
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, third);
}

// An actor whose creation waits for a name: the last handle of the name's holder is gone, and that one may take long.
class AwaitedNameTest : public OneNode {
 protected:
  void SetUp() override {
    drop_handle(driver_, live(spec(driver_, job_, "hits"), kWorker));
    next_ = spec(kMaker, job_, "hits");
    created_ = request(kMaker, Method::kCreateActor, next_);
    asked_ = request(kMaker, Method::kResolveActor, wire::ResolveActor{next_.id});
  }
  std::optional<wire::ActorState> state_told(ProcessId to, std::uint64_t token) {
    const auto reply = answer(to, token);
    if (!reply) return std::nullopt;
    return std::get<wire::ActorLocation>(*reply).state;
  }
  static constexpr ProcessId kMaker{1, 3};
  static constexpr Duration kLong = 60s;
  wire::ActorSpec next_;
  std::uint64_t created_ = 0, asked_ = 0;
};

TEST_F(AwaitedNameTest, IsKnownToComeHoweverLongThatTakes) {
  pass(kLong);
  ASSERT_FALSE(answer(kMaker, asked_)) << "AC-5";
  crash(kWorker);
  EXPECT_TRUE(answer(kMaker, created_));
  EXPECT_EQ(state_told(kMaker, asked_), wire::ActorState::kPending);
  EXPECT_EQ(state_.actors().holders(next_.id), 1u);
}

TEST_F(AwaitedNameTest, IsKnownToComeAlsoWhenItsMakerHasDroppedItsHandle) {
  hold_handle(kOther, next_.id);
  drop_handle(kMaker, next_.id);
  const std::uint64_t asked = request(kOther, Method::kResolveActor, wire::ResolveActor{next_.id});
  pass(kLong);
  ASSERT_FALSE(answer(kOther, asked)) << "AC-5";
  crash(kWorker);
  EXPECT_EQ(state_told(kOther, asked), wire::ActorState::kPending);
  EXPECT_EQ(state_.actors().holders(next_.id), 1u);
}

TEST_F(AwaitedNameTest, DoesNotComeWhenItsMakerHasDied) {
  const std::uint64_t asked = request(kOther, Method::kResolveActor, wire::ResolveActor{next_.id});
  crash(kMaker);
  pass(kLong);
  EXPECT_EQ(state_told(kOther, asked), wire::ActorState::kDead);
  crash(kWorker);
  EXPECT_TRUE(starts(1).empty());
}

TEST_F(AwaitedNameTest, IsKilledAtOnceAndItsCreationIsAnswered) {
  const std::uint64_t look_up = request(kOther, Method::kGetNamedActor, wire::NamedActor{"hits", "ns"});
  EXPECT_FALSE(answer(kOther, look_up));
  ask<wire::Empty>(kOther, Method::kKillActor, wire::KillActor{next_.id, false});
  const auto refused = answer(kMaker, created_);
  ASSERT_TRUE(refused && std::holds_alternative<ErrorRecord>(*refused)) << "AN-5";
  EXPECT_EQ(std::get<ErrorRecord>(*refused).code, ErrorCode::kActorDied);
  EXPECT_EQ(state_told(kMaker, asked_), wire::ActorState::kDead);
  EXPECT_TRUE(answer(kOther, look_up)) << "AN-3: no creation waits for the name any more";
  crash(kWorker);
  EXPECT_TRUE(starts(1).empty());
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, spec(driver_, job_, "hits"));
}

/// The kill went another way than the creation, and was the first to come.
TEST_F(AwaitedNameTest, IsDeadWhenItWasKilledBeforeItsCreationCame) {
  const wire::ActorSpec late = spec(kMaker, job_, "hits");
  const std::uint64_t kill = request(kOther, Method::kKillActor, wire::KillActor{late.id, false});
  EXPECT_FALSE(answer(kOther, kill));
  const auto refused = ask_error(kMaker, Method::kCreateActor, late);
  EXPECT_EQ(refused.code, ErrorCode::kActorDied) << "AC-5: at once";
  EXPECT_TRUE(answer(kOther, kill));
}

TEST_F(AwaitedNameTest, IsNotKilledByARestart) {
  const std::uint64_t kill = request(kOther, Method::kKillActor, wire::KillActor{next_.id, true});
  pass(kLong);
  EXPECT_TRUE(answer(kOther, kill));
  crash(kWorker);
  EXPECT_EQ(state_told(kMaker, asked_), wire::ActorState::kPending);
}

TEST_F(NamesTest, ADetachedActorNeedsAName) {
  wire::ActorSpec nameless = spec(driver_, job_);
  nameless.lifetime = Lifetime::kDetached;
  EXPECT_EQ(ask_error(driver_, Method::kCreateActor, nameless).code, ErrorCode::kInvalidArgument);
}

TEST_F(NamesTest, AProgramOfAnotherBuildIsRefusedAndToldWhatToDo) {
  live(spec(driver_, job_, "a"), {1, 10});
  const ProcessId other{1, 3};
  wire::ActorSpec same = spec(other, job(other, "ns", "another digest"), "a");
  same.get_if_exists = true;
  for (const ErrorRecord& error : {ask_error(other, Method::kGetNamedActor, wire::NamedActor{"a", "ns"}),
                                   ask_error(other, Method::kCreateActor, same)}) {
    EXPECT_EQ(error.code, ErrorCode::kUnauthenticated) << "AN-4";
    EXPECT_NE(error.message.find("run the same build"), std::string::npos) << error.message;
  }
}

}  // namespace
}  // namespace troupe::head
