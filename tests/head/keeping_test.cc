// What outlives processes: who pins what, which names a new life is given, what is lost and how that is said (KP-1 to
// KP-4).
#include "head_fixture.h"

namespace troupe::head {
namespace {

const ProcessId kWorker{1, 10}, kSecond{1, 11};
const wire::BufferDesc kArray{1, 7, 3, 1 << 20}, kState{1, 8, 1, 2 << 20}, kNewState{1, 9, 1, 2 << 20};

/// One node with a job; further ones join when a test wants them.
class KeepingTest : public OneNode {
 protected:
  struct Question {
    ProcessId to;
    std::uint64_t token;
    wire::KeepRequest request;
  };

  wire::ActorSpec with_array(std::int32_t max_restarts) {
    wire::ActorSpec result = spec(driver_, job_);
    result.max_restarts = max_restarts;
    result.arguments.buffers = {kArray};
    return result;
  }
  void save(ActorId actor, std::uint64_t number, wire::BufferDesc buffer, ProcessId from = kWorker) {
    wire::Checkpoint checkpoint;
    checkpoint.actor = actor;
    checkpoint.number = number;
    checkpoint.state.buffers = {buffer};
    notice(from, Method::kCheckpoint, checkpoint);
  }
  std::vector<Question> questions() {
    std::vector<Question> found;
    std::erase_if(sent_, [&](const Send& send) {
      if (send.method != Method::kKeep || send.kind != wire::FrameKind::kRequest) return false;
      found.push_back({send.to, send.token, std::get<wire::KeepRequest>(send.body)});
      return true;
    });
    return found;
  }
  void agree(const Question& question, std::vector<wire::BufferDesc> buffers) {
    answer_with(question, false, wire::KeepReply{std::move(buffers)});
  }
  void answer_with(const Question& question, bool failed, Message body) {
    event(Frame{
        link_of(question.to), wire::FrameKind::kResponse, question.to, question.token, {}, failed, std::move(body)});
  }
  std::vector<wire::KeptName> no_more(std::uint32_t node) {
    return notices<wire::KeptName>(daemon_of(node), Method::kKeepNoMore);
  }
  void end_node(std::uint32_t node) {
    lose_link(node);
    pass(2s);
  }
  /// The node's process is gone, the actor starts again.
  wire::StartActor start_again(std::uint32_t node) {
    pass(2s);
    const auto start = starts(node);
    EXPECT_EQ(start.size(), 1u);
    return start.empty() ? wire::StartActor{} : start[0];
  }
};

TEST_F(KeepingTest, KP1_ArgumentsOfOneThatDoesNotComeBackAreGivenBackWhenItWasConstructed) {
  const wire::ActorSpec one = with_array(0);
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, one);
  EXPECT_TRUE(no_more(1).empty());
  EXPECT_EQ(state_.actors().keeping().size(), 1u);
  started(starts(1).at(0), kWorker);
  const auto told = no_more(1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0], (wire::KeptName{one.id, 0, 0}));
  EXPECT_EQ(state_.actors().keeping().size(), 0u);
}

TEST_F(KeepingTest, KP1_ArgumentsOfACreationThatIsRefusedAreGivenBack) {
  live(spec(driver_, job_, "x"), kWorker);
  wire::ActorSpec second = with_array(0);
  second.name = "x";
  ask_error(driver_, Method::kCreateActor, second);
  EXPECT_EQ(no_more(1).size(), 1u);
  second.id.seq += 100;
  second.get_if_exists = true;
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, second);
  EXPECT_EQ(no_more(1).size(), 1u) << "it is another one's arguments that were used";
}

TEST_F(KeepingTest, KP1_WhatIsNewerTakesThePlaceAndTheEndGivesBackAll) {
  const ActorId actor = live(with_array(-1), kWorker);
  save(actor, 1, kState);
  EXPECT_TRUE(no_more(1).empty());
  save(actor, 2, kNewState);
  const auto old = no_more(1);
  ASSERT_EQ(old.size(), 1u);
  EXPECT_EQ(old[0], (wire::KeptName{actor, 0, 1}));
  save(actor, 1, kState);  // late
  crash(kWorker);
  const wire::StartActor start = start_again(1);
  ASSERT_TRUE(start.checkpoint);
  EXPECT_EQ(start.checkpoint->state.buffers.at(0), kNewState);
  EXPECT_EQ(start.spec.arguments.buffers.at(0), kArray);
  save(actor, 9, kState, kSecond);  // of the life that is over: nobody will restore it
  EXPECT_EQ(no_more(1).size(), 1u);
  drop_handle(driver_, actor);
  exited(actor, {1, 12}, DeathCause::kFinished, {}, {}, 1);
  EXPECT_EQ(no_more(1).size(), 2u) << "arguments and checkpoint";
  EXPECT_EQ(state_.actors().keeping().size(), 0u);
}

TEST_F(KeepingTest, KP4_TheCreatorHoldsRefsOfAnActorThatDiesBeforeItWasConstructed) {
  wire::ActorSpec one = spec(driver_, job_);
  one.arguments.refs = {{ObjectId{driver_, 5}}};
  ask<wire::CreateActorReply>(driver_, Method::kCreateActor, one);
  EXPECT_TRUE(notices<wire::ResolveActor>(driver_, Method::kArgumentsTaken).empty());
  ask<wire::Empty>(driver_, Method::kKillActor, wire::KillActor{one.id, false});
  pass(6s);
  EXPECT_EQ(notices<wire::ResolveActor>(driver_, Method::kArgumentsTaken).size(), 1u);
}

/// Its process ends, or is killed, before the owners of what it was given have confirmed that it is counted: it tells
/// the creator nothing.
TEST_F(KeepingTest, KP4_TheCreatorHoldsRefsOfAnActorThatDiesRightAfterItWasConstructed) {
  wire::ActorSpec one = spec(driver_, job_);
  one.arguments.refs = {{ObjectId{driver_, 5}}};
  const ActorId actor = live(one, kWorker);
  EXPECT_TRUE(notices<wire::ResolveActor>(driver_, Method::kArgumentsTaken).empty());
  drop_handle(driver_, actor);
  exited(actor, kWorker, DeathCause::kFinished);
  EXPECT_EQ(notices<wire::ResolveActor>(driver_, Method::kArgumentsTaken).size(), 1u);
  EXPECT_EQ(state_.actors().keeping().size(), 0u);
}

TEST_F(KeepingTest, AHandleInACheckpointKeepsItsActor) {
  const ActorId child = live(spec(driver_, job_), kSecond);
  wire::ActorSpec parent = spec(driver_, job_);
  parent.max_restarts = 1;
  const ActorId actor = live(parent, kWorker);
  wire::Checkpoint checkpoint;
  checkpoint.actor = actor;
  checkpoint.number = 1;
  checkpoint.state.handles = {{.actor = child}, {.actor = actor}};
  notice(kWorker, Method::kCheckpoint, checkpoint);
  drop_handle(driver_, child);
  pass(5s);
  EXPECT_TRUE(notices<wire::ResolveActor>(kSecond, Method::kActorHandlesGone).empty());
  checkpoint.number = 2;
  checkpoint.state.handles.clear();
  notice(kWorker, Method::kCheckpoint, checkpoint);
  EXPECT_EQ(notices<wire::ResolveActor>(kSecond, Method::kActorHandlesGone).size(), 1u);
}

TEST_F(KeepingTest, ANodeThatJoinsIsAskedForWhatHasNoSecondCopy) {
  const ActorId actor = live(with_array(-1), kWorker);
  save(actor, 1, kState);
  EXPECT_TRUE(questions().empty());
  const std::uint32_t second = join(4);
  const auto asked = questions();
  ASSERT_EQ(asked.size(), 2u) << "arguments and state";
  for (const Question& question : asked) {
    EXPECT_EQ(question.to, daemon_of(second));
    answer_with(question, true, error_record(ErrorCode::kObjectStoreFull, "no room"));
  }
  EXPECT_TRUE(questions().empty()) << "it is not asked again and again";
  join(4);
  EXPECT_EQ(questions().size(), 2u);
}

// ------------------------------------------------------------------------------------------------------- several nodes

/// Three nodes: 1 has the driver and, first, the actors.
class KeepingOnNodesTest : public KeepingTest {
 protected:
  KeepingOnNodesTest() {
    join(4);
    join(4);
  }
};

TEST_F(KeepingOnNodesTest, KP3_ANodesDeathIsSurvivedByWhatAnotherHasCopied) {
  const ProcessId driver{3, 1};
  const JobId job_there = job(driver, "there");
  wire::ActorSpec one = spec(driver, job_there);
  one.max_restarts = -1;
  one.arguments.buffers = {{3, 7, 3, 1 << 20}};
  one.scheduling = NodeAffinity{.node_id = ids_[1], .soft = true};
  const ActorId actor = live(one, kWorker);
  auto asked = questions();
  ASSERT_EQ(asked.size(), 1u) << "the arguments";
  EXPECT_NE(asked[0].to.node, 3u);
  const wire::BufferDesc array_copy{asked[0].to.node, 70, 1, 1 << 20};
  agree(asked[0], {array_copy});
  save(actor, 1, kState);
  asked = questions();
  ASSERT_EQ(asked.size(), 1u);
  const wire::BufferDesc state_copy{asked[0].to.node, 80, 1, kState.size};
  EXPECT_NE(asked[0].to.node, 1u);
  agree(asked[0], {state_copy});
  end_node(1);
  pass(2s);
  std::vector<wire::StartActor> again = starts(2);
  for (auto& more : starts(3)) again.push_back(more);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].spec.arguments.buffers.at(0), one.arguments.buffers[0]);
  ASSERT_TRUE(again[0].checkpoint);
  EXPECT_EQ(again[0].checkpoint->state.buffers.at(0), state_copy);
}

TEST_F(KeepingOnNodesTest, KP2_AFullKeeperIsAWarningAndTheOlderCheckpointStays) {
  const ProcessId driver{3, 1};
  const JobId job_there = job(driver, "there");
  wire::ActorSpec one = spec(driver, job_there);
  one.max_restarts = -1;
  one.scheduling = NodeAffinity{.node_id = ids_[1], .soft = true};
  const ActorId actor = live(one, kWorker);
  save(actor, 1, kState);
  auto asked = questions();
  ASSERT_EQ(asked.size(), 1u);
  const std::uint32_t away = asked[0].to.node;
  const wire::BufferDesc copy{away, 80, 1, kState.size};
  agree(asked[0], {copy});
  EXPECT_TRUE(no_more(1).empty()) << "home keeps it too";
  save(actor, 2, kNewState);
  EXPECT_TRUE(no_more(1).empty()) << "the newer one is not as safe";
  asked = questions();
  ASSERT_EQ(asked.size(), 1u);
  others_.clear();
  answer_with(asked[0], true, error_record(ErrorCode::kObjectStoreFull, "no room"));
  ASSERT_FALSE(others_.empty());
  EXPECT_TRUE(std::get<LogLine>(others_[0]).warning);
  EXPECT_NE(std::get<LogLine>(others_[0]).text.find("no room"), std::string::npos);
  end_node(1);
  pass(2s);
  std::vector<wire::StartActor> again = starts(2);
  for (auto& more : starts(3)) again.push_back(more);
  ASSERT_EQ(again.size(), 1u);
  ASSERT_TRUE(again[0].checkpoint);
  EXPECT_EQ(again[0].checkpoint->number, 1u);
  EXPECT_EQ(again[0].checkpoint->state.buffers.at(0), copy);
}

TEST_F(KeepingOnNodesTest, KP3_WhenAllCopiesAreLostTheDeathNamesTheNode) {
  const ProcessId driver{3, 1};
  const JobId job_there = job(driver, "there");
  wire::ActorSpec one = spec(driver, job_there);
  one.max_restarts = -1;
  one.scheduling = NodeAffinity{.node_id = ids_[1], .soft = true};
  const ActorId actor = live(one, kWorker);
  save(actor, 1, kState);  // nobody answers before the node dies
  end_node(1);
  pass(2s);
  EXPECT_EQ(state_.actors().state_of(actor), wire::ActorState::kDead);
  const wire::ActorLocation location = where(driver, actor);
  ASSERT_TRUE(location.error);
  EXPECT_NE(location.error->message.find("checkpoint 1 was kept by node " + ids_[1]), std::string::npos)
      << location.error->message;
}

TEST_F(KeepingOnNodesTest, ADeadKeepersCopyIsMadeAgain) {
  const ProcessId driver{1, 1};
  wire::ActorSpec one = with_array(-1);
  const ActorId actor = live(one, kWorker);
  auto asked = questions();
  ASSERT_EQ(asked.size(), 1u);
  const std::uint32_t away = asked[0].to.node;
  agree(asked[0], {{away, 70, 1, kArray.size}});
  end_node(away);
  asked = questions();
  ASSERT_EQ(asked.size(), 1u) << "home supplies it again";
  EXPECT_NE(asked[0].to.node, away);
  EXPECT_NE(asked[0].to.node, 1u);
  EXPECT_EQ(asked[0].request.buffers.at(0), kArray);
  drop_handle(driver, actor);
  exited(actor, kWorker, DeathCause::kFinished);
  EXPECT_EQ(no_more(asked[0].to.node).size(), 1u) << "KP-1: also who has not answered yet";
  EXPECT_EQ(no_more(1).size(), 1u);
}

TEST_F(KeepingOnNodesTest, ACheckpointThatComesWhileOneIsCopiedIsCopiedNext) {
  wire::ActorSpec one = spec(driver_, job_);
  one.max_restarts = -1;
  const ActorId actor = live(one, kWorker);
  save(actor, 1, kState);
  save(actor, 2, kNewState);
  save(actor, 3, kArray);
  auto asked = questions();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].request.name.number, 1u);
  EXPECT_EQ(no_more(1).size(), 1u) << "the second was never wanted by anybody";
  agree(asked[0], {{asked[0].to.node, 80, 1, kState.size}});
  asked = questions();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].request.name.number, 3u);
  agree(asked[0], {{asked[0].to.node, 81, 1, kArray.size}});
  const auto home = no_more(1);
  ASSERT_EQ(home.size(), 1u);
  EXPECT_EQ(home[0].number, 1u);
}

}  // namespace
}  // namespace troupe::head
