// Names by themselves: who holds one, and what waits for it (AN-1 to AN-5). Through the head: names_test.cc.
#include "core/head/state/actors/actor_names.h"

#include <gtest/gtest.h>

namespace troupe::head {
namespace {

const ProcessId kDriver{1, 1}, kOther{1, 2};
const ActorId kFirst{kDriver, 1}, kSecond{kDriver, 2};
const ActorName kHits{"ns", "hits"};

class ActorNamesTest : public ::testing::Test {
 protected:
  JobId job(ProcessId driver, const std::string& digest) {
    wire::RegisterJob request;
    request.driver = driver;
    request.name_space = "ns";
    request.registry_digest = digest;
    return jobs_.add(request, random_).id;
  }
  static wire::ActorSpec spec(ActorId id, JobId job = 0) {
    wire::ActorSpec result;
    result.id = id;
    result.job = job;
    result.name_space = kHits.name_space;
    result.name = kHits.name;
    result.class_name = "Counter";
    return result;
  }
  static wire::NamedActor look_up() { return {kHits.name, kHits.name_space}; }

  Random random_{1};
  Jobs jobs_;
  ActorNames names_{jobs_};
};

TEST_F(ActorNamesTest, AN1_ANameIsHeldByOneUntilThatOneReleasesIt) {
  EXPECT_TRUE(names_.take(kHits, kFirst));
  EXPECT_FALSE(names_.take(kHits, kSecond));
  EXPECT_TRUE(names_.take({"elsewhere", "hits"}, kSecond)) << "another namespace, another name";
  names_.release(kHits, kSecond);
  EXPECT_EQ(names_.holder(kHits), kFirst) << "who does not hold it cannot make it free";
  names_.release(kHits, kFirst);
  EXPECT_FALSE(names_.holder(kHits));
  EXPECT_TRUE(names_.take(kHits, kSecond));
}

TEST_F(ActorNamesTest, AN2_CreationsAreHandedBackOnceInTheirOrder) {
  names_.take(kHits, kFirst);
  names_.await({kDriver, 7}, spec(kSecond));
  names_.await({kOther, 8}, spec({kOther, 1}));
  EXPECT_TRUE(names_.awaited(kHits));
  EXPECT_TRUE(names_.release(kHits, kSecond).creations.empty()) << "not by another actor's death";
  const ActorNames::Waiting back = names_.release(kHits, kFirst);
  ASSERT_EQ(back.creations.size(), 2u);
  EXPECT_EQ(back.creations[0].first.token, 7u);
  EXPECT_EQ(back.creations[0].second.id, kSecond);
  EXPECT_EQ(back.creations[1].first.token, 8u);
  EXPECT_FALSE(names_.awaited(kHits));
  names_.take(kHits, kSecond);
  EXPECT_TRUE(names_.release(kHits, kSecond).creations.empty()) << "once";
}

TEST_F(ActorNamesTest, AN3_ALookUpIsHandedBackWithTheCreationThatItWaitsFor) {
  names_.take(kHits, kFirst);
  names_.await({kDriver, 7}, spec(kSecond));
  names_.await({kOther, 8}, look_up());
  EXPECT_EQ(names_.waiting_look_ups(), 1u);
  const ActorNames::Waiting back = names_.release(kHits, kFirst);
  ASSERT_EQ(back.look_ups.size(), 1u);
  EXPECT_EQ(back.look_ups[0].first.token, 8u);
  EXPECT_EQ(back.look_ups[0].second.name, "hits");
  EXPECT_EQ(names_.waiting_look_ups(), 0u);
}

TEST_F(ActorNamesTest, AN5_AWithdrawnCreationIsHandedBackEveryTimeThatItWasAskedForAndNoOther) {
  const ActorId third{kOther, 1};
  names_.take(kHits, kFirst);
  names_.await({kDriver, 7}, spec(kSecond));
  names_.await({kOther, 8}, spec(third));
  names_.await({kDriver, 9}, spec(kSecond));
  names_.await({kOther, 10}, look_up());
  EXPECT_TRUE(names_.waits(kSecond));
  EXPECT_FALSE(names_.waits(kFirst));
  const ActorNames::Waiting back = names_.withdraw(kSecond);
  ASSERT_EQ(back.creations.size(), 2u);
  EXPECT_EQ(back.creations[0].first.token, 7u);
  EXPECT_EQ(back.creations[1].first.token, 9u);
  EXPECT_TRUE(back.look_ups.empty()) << "AN-3: another creation waits";
  EXPECT_FALSE(names_.waits(kSecond));
  EXPECT_TRUE(names_.withdraw(kSecond).creations.empty()) << "AN-2: once";
  EXPECT_EQ(names_.withdraw(third).look_ups.size(), 1u) << "AN-3: none waits any more";
  EXPECT_FALSE(names_.awaited(kHits));
  EXPECT_EQ(names_.holder(kHits), kFirst);
}

TEST_F(ActorNamesTest, LookUpsOfTheDeadAreForgottenAndCreationsAreNot) {
  names_.take(kHits, kFirst);
  names_.await({kOther, 7}, spec(kSecond));
  names_.await({kOther, 8}, look_up());
  names_.await({kDriver, 9}, look_up());
  names_.forget_look_ups([](ProcessId process) { return process == kOther; });
  EXPECT_EQ(names_.waiting_look_ups(), 1u);
  const ActorNames::Waiting back = names_.release(kHits, kFirst);
  EXPECT_EQ(back.creations.size(), 1u) << "what came with it is let go of by whoever takes it back";
  ASSERT_EQ(back.look_ups.size(), 1u);
  EXPECT_EQ(back.look_ups[0].first.token, 9u);
}

TEST_F(ActorNamesTest, ACreationGetsTheHolderOnlyWhereItAsksForOneOfItsClass) {
  wire::ActorSpec creation = spec(kSecond);
  EXPECT_EQ(names_.refusal(creation, spec(kFirst))->code, ErrorCode::kInvalidArgument);
  creation.get_if_exists = true;
  EXPECT_FALSE(names_.refusal(creation, spec(kFirst)));
  creation.class_name = "Adder";
  EXPECT_EQ(names_.refusal(creation, spec(kFirst))->code, ErrorCode::kInvalidArgument);
}

TEST_F(ActorNamesTest, AN4_AProgramWithOtherFunctionsGetsNoHandle) {
  const JobId mine = job(kDriver, "one digest"), same = job({1, 3}, "one digest"), other = job(kOther, "another");
  const wire::ActorSpec holder = spec(kFirst, mine);
  EXPECT_FALSE(names_.other_build(jobs_.find(same), holder));
  EXPECT_EQ(names_.other_build(jobs_.find(other), holder)->code, ErrorCode::kUnauthenticated);
  EXPECT_FALSE(names_.other_build(nullptr, holder));
  wire::ActorSpec creation = spec(kSecond, other);
  creation.get_if_exists = true;
  EXPECT_EQ(names_.refusal(creation, holder)->code, ErrorCode::kUnauthenticated);
}

TEST_F(ActorNamesTest, TheDefaultNamespaceIsTheJobs) {
  EXPECT_EQ(names_.default_name_space(job(kDriver, "")), "ns");
  EXPECT_EQ(names_.default_name_space(0), "default");
}

}  // namespace
}  // namespace troupe::head
