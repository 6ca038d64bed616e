// The executing side, event by event: calls that come before their actor, tasks beside tasks that wait.
#include "tests/process/bench.h"

namespace troupe::worker {
namespace {

const ProcessId kMaker{1, 8}, kOther{1, 9};

struct Nothing {};
Nothing the_actor;
void construct(detail::Invocation& in) { in.constructed = &the_actor; }
void destroy(void*) {}
const detail::ClassOperations operations{&destroy, nullptr, nullptr};
detail::FunctionNode constructor{detail::FunctionKind::kConstructor, &construct, "[with A = Light]", &operations};
detail::FunctionNode function{detail::FunctionKind::kFunction, nullptr, "[with auto F = model]"};

void call(Bench& bench, ProcessId from, CallHead head) {
  detail::freeze_registry();
  std::vector<std::byte> memory;
  FrameWriter out(memory);
  head.function = head.kind == CallKind::kConstructLight ? constructor.index : function.index;
  out.put(head);
  out.put(ValueHead{});
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kCall);
  header.token = head.call_id;
  header.arg0 = head.call_id;
  bench.attached_peers.insert(from);
  bench.deliver(from, header, memory);
}

ReplyHead reply_of(const SentFrame& frame) {
  ReplyHead head;
  std::memcpy(&head, frame.payload.data(), sizeof head);
  return head;
}

CallHead light_call(std::uint64_t id, ActorId actor) {
  return {.call_id = id, .actor = actor, .returns = 1, .kind = CallKind::kActorCall, .direct = 1};
}

CallHead construction(std::uint64_t id, ActorId actor) {
  return {.call_id = id, .actor = actor, .kind = CallKind::kConstructLight};
}
CallHead task(std::uint64_t id, std::uint64_t lease, bool shared = false) {
  return {.call_id = id, .actor = {}, .lease = lease, .returns = 1, .shared = std::uint8_t(shared)};
}

/// Another process has the handle before the maker's frame is here: its calls wait for it. (A.14, HO-5)
TEST(LightActors, ACallWaitsForTheConstructionOfItsActor) {
  Bench bench(wire::Role::kWorker);
  const ActorId actor{kMaker, 1};
  call(bench, kOther, light_call(11, actor));
  call(bench, kOther, light_call(12, actor));
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kReply).size(), 0u) << "on f0736ec: the actor has ended";
  call(bench, kMaker, construction(1, actor));
  bench.do_work();
  ASSERT_EQ(bench.ran.size(), 2u);
  EXPECT_EQ(bench.ran[0]->head.call_id, 11u);
  EXPECT_EQ(bench.ran[1]->head.call_id, 12u);
}

/// The head's list of actors is asked for by way of the hosts: what one has not told yet goes before its answer. (H.11, LS-3)
TEST(LightActors, WhatTheHeadHasNotHeardIsToldBeforeTheAnswerToItsQuestion) {
  Bench bench(wire::Role::kWorker);
  call(bench, kMaker, construction(1, {kMaker, 1}));
  bench.do_work();
  bench.sent.clear();
  net::FrameHeader query;
  query.kind = std::uint8_t(wire::FrameKind::kRequest);
  query.token = 5;
  query.arg0 = std::uint64_t(wire::Method::kQueryState);
  bench.deliver(Bench::kDaemon, query, wire::encode_message(wire::StateQuery{wire::StateKind::kActors, {}, -1, 0}));
  ASSERT_EQ(bench.sent.size(), 2u);
  ASSERT_TRUE(bench.sent[0].is(wire::Method::kLightActors));
  EXPECT_EQ(bench.sent[0].decode<wire::LightActors>().started.size(), 1u);
  EXPECT_EQ(bench.sent[1].kind(), wire::FrameKind::kResponse);
}

TEST(LightActors, ACallToAnActorThatIsOverFails) {
  Bench bench(wire::Role::kWorker);
  call(bench, kMaker, construction(1, {kMaker, 2}));
  bench.do_work();
  call(bench, kOther, light_call(11, {kMaker, 1}));  // made before that one: it has ended
  const auto replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 2u) << "the construction's and the call's";
  EXPECT_EQ(reply_of(replies[1]).status, ReplyStatus::kError);
}

TEST(LightActors, ACallWhoseActorWillNotComeFails) {
  Bench bench(wire::Role::kWorker);
  call(bench, kOther, light_call(11, {kMaker, 1}));
  call(bench, kOther, light_call(12, {kMaker, 1}));
  net::FrameHeader cancel;
  cancel.kind = std::uint8_t(wire::FrameKind::kControl);
  cancel.arg0 = std::uint64_t(Control::kCancel);
  cancel.arg1 = 12;
  bench.deliver(kOther, cancel, {});
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kReply).size(), 1u) << "cancelled";
  wire::ProcessDied died;
  died.process = kMaker;
  bench.notice(wire::Method::kProcessDied, died);
  const auto replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(reply_of(replies[0]).status, ReplyStatus::kError);
  call(bench, kOther, light_call(13, {kMaker, 1}));
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kReply).size(), 1u) << "its maker is known to be dead";
}

/// The task of a shared lease runs beside the one that waits; another one would be given back. (A.2, HO-1, HO-2)
TEST(SharedWorker, ASharedTaskRunsBesideTheOneThatWaits) {
  Bench bench(wire::Role::kWorker);
  call(bench, kOther, task(1, 5));
  std::function<void()> first;
  {
    CoreLock lock(bench.core);
    ASSERT_TRUE(bench.core.host().next_work(first));  // taken, and not done until the end
  }
  call(bench, kOther, task(2, 5));
  bench.core.task_waits().task_waits();
  EXPECT_EQ(bench.count(Control::kRecalled), 1u) << "it waits behind the one that waits";
  call(bench, kMaker, task(3, 6, true));
  EXPECT_EQ(bench.count(Control::kRecalled), 1u) << "on f0736ec it went back, and came again, for ever";
  bench.do_work();
  ASSERT_EQ(bench.ran.size(), 1u);
  EXPECT_EQ(bench.ran[0]->head.call_id, 3u);
  first();
  EXPECT_EQ(bench.ran.size(), 2u);
}

TEST(SharedWorker, EachLeaseTellsOfItsOwnTask) {
  Bench bench(wire::Role::kWorker);
  CallContext context;
  context.is_task = true;
  context.lease = 6;
  CoreLock lock(bench.core);
  bench.core.task_waits().task_blocked(context, true);
  EXPECT_EQ(bench.take(wire::Method::kWorkerBlocked).decode<wire::WorkerBlocked>().lease_id, 6u);
}

}  // namespace
}  // namespace troupe::worker
