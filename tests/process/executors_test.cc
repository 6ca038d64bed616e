// The executing side, event by event: calls that come before their actor, tasks beside tasks that wait.
#include "core/executor/call_runner.h"
#include "tests/process/bench.h"

namespace troupe::worker {
namespace {

using namespace std::chrono_literals;

const ProcessId kMaker{1, 8}, kOther{1, 9};

struct Nothing {};
Nothing the_actor;
void construct(detail::Invocation& in) { in.constructed = &the_actor; }
void destroy(void*) {}
const detail::ClassOperations operations{&destroy, nullptr, nullptr};
detail::FunctionNode constructor{detail::FunctionKind::kConstructor, &construct, "[with A = Light]", &operations};
detail::FunctionNode function{detail::FunctionKind::kFunction, nullptr, "[with auto F = model]"};

void call(Bench& bench, ProcessId from, CallHead head, std::string_view key = {},
          const detail::FunctionNode* what = &function) {  // null: as head says
  detail::freeze_registry();
  std::vector<std::byte> memory;
  FrameWriter out(memory);
  if (what) head.function = head.kind == CallKind::kConstructLight ? constructor.index : what->index;
  head.key_size = std::uint16_t(key.size());
  out.put(head);
  out.text(key);
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

Bench* running_bench = nullptr;
void take_seven_ms(detail::Invocation&) {
  running_bench->time += 7ms;
  throw std::runtime_error("after a while");
}
detail::FunctionNode slow{detail::FunctionKind::kFunction, &take_seven_ms, "[with auto F = slow]"};

/// How long a task runs decides how many go to a worker at once: one that fails took its time as well. (TS-2)
TEST(RunTime, IsSaidOfWhatRanWhateverCameOfIt) {
  Bench bench(wire::Role::kWorker);
  running_bench = &bench;
  bench.run_call = [&](const IncomingPtr& incoming, HostedActor* actor) {
    CallRunner(bench.core, bench.core.owner(), bench.core.host()).run(incoming, actor);
  };
  detail::freeze_registry();
  CallHead head = task(1, 1);
  const auto run = [&](const detail::FunctionNode* what) {
    call(bench, kMaker, head, {}, what);
    std::function<void()> work;
    {
      CoreLock lock(bench.core);
      ASSERT_TRUE(bench.core.host().next_work(work));
    }
    work();
  };
  run(&slow);
  auto replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(reply_of(replies[0]).status, ReplyStatus::kError);
  EXPECT_EQ(reply_of(replies[0]).run_us, 7000u);
  ++head.call_id;
  head.function = 0x7FFF'FFFF;
  run(nullptr);
  replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(reply_of(replies[0]).status, ReplyStatus::kError);
  EXPECT_EQ(reply_of(replies[0]).run_us, kNotRun) << "this program has no such function";
  ++head.call_id;
  head.dependencies = 1;  // and no such value follows
  call(bench, kMaker, head, {}, &slow);
  replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(reply_of(replies[0]).status, ReplyStatus::kError);
  EXPECT_EQ(reply_of(replies[0]).run_us, kNotRun) << "it says nothing of how long such tasks take";
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

/// The head's list of actors is asked for by way of the hosts: what one has not told yet goes before its answer.
/// (H.11, LS-3)
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

// An actor whose state is one ref.
detail::ObjectPtr the_ref;
void ref_checkpoint(const void*, detail::Value& out) {
  out.attachments = std::make_unique<detail::Attachments>();
  out.attachments->objects.push_back(the_ref);
}
const detail::ClassOperations with_checkpoint{&destroy, &ref_checkpoint, nullptr};
detail::FunctionNode saved_constructor{detail::FunctionKind::kConstructor, &construct, "[with A = Saved]",
                                       &with_checkpoint};

constexpr ActorId kSaved{kMaker, 3};

/// The actor is there, and keeps its state after each call.
void construct_saved(Bench& bench, const detail::FunctionNode& constructor) {
  wire::ConstructActor message;
  message.spec.id = kSaved;
  message.spec.constructor = constructor.index;
  message.spec.max_restarts = 1;
  message.spec.checkpoint_every = 1ns;
  bench.notice(wire::Method::kConstructActor, message);
  bench.do_work();
}

/// The head has the value of a ref inside a checkpoint as soon as there is one. (A.1)
TEST(Checkpoint, GoesAgainWhenARefInsideIsReady) {
  detail::freeze_registry();
  Bench bench(wire::Role::kWorker);
  {
    CoreLock lock(bench.core);
    the_ref = detail::ObjectPtr::adopt(bench.core.objects().make_owned());
  }
  construct_saved(bench, saved_constructor);
  bench.advance(1ms);
  call(bench, kOther, {.call_id = 1, .actor = kSaved, .returns = 1, .kind = CallKind::kActorCall});
  bench.do_work();
  const auto first = bench.take(wire::Method::kCheckpoint).decode<wire::Checkpoint>();
  EXPECT_EQ(first.state.refs.size(), 1u);
  EXPECT_TRUE(first.refs.empty());
  {
    CoreLock lock(bench.core);
    detail::Value value;
    const std::byte seven{7};
    value.body = detail::Bytes(&seven, 1);
    bench.core.objects().complete(entry_of(the_ref), std::move(value));
  }
  bench.advance(1ms);
  const auto second = bench.take(wire::Method::kCheckpoint).decode<wire::Checkpoint>();
  EXPECT_GT(second.number, first.number);
  ASSERT_EQ(second.refs.size(), 1u);
  EXPECT_EQ(second.refs[0].value.body, std::vector{std::byte{7}});
  the_ref = {};
}

// An actor whose state is a ref as well while there is one, and this many bytes.
std::size_t state_bytes = 0;
void large_checkpoint(const void*, detail::Value& out) {
  if (the_ref) ref_checkpoint(nullptr, out);
  out.body = detail::Bytes(state_bytes);
}
const detail::ClassOperations with_large_checkpoint{&destroy, &large_checkpoint, nullptr};
detail::FunctionNode large_constructor{detail::FunctionKind::kConstructor, &construct, "[with A = Large]",
                                       &with_large_checkpoint};

/// What fits no message is no checkpoint, and what the one before it names is kept. (CR-6)
TEST(Checkpoint, OneThatFitsNoMessageLeavesTheOneBeforeIt) {
  detail::freeze_registry();
  Bench bench(wire::Role::kWorker);
  ObjectId named;
  {
    CoreLock lock(bench.core);
    the_ref = detail::ObjectPtr::adopt(bench.core.objects().make_owned());
    named = entry_of(the_ref).id;
    bench.core.objects().complete(entry_of(the_ref), {});
  }
  construct_saved(bench, large_constructor);
  std::uint64_t calls = 0;
  const auto checkpoint_of = [&](std::size_t bytes) {
    state_bytes = bytes;
    bench.advance(1ms);
    call(bench, kOther, {.call_id = ++calls, .actor = kSaved, .returns = 1, .kind = CallKind::kActorCall});
    bench.do_work();
  };
  checkpoint_of(1);
  EXPECT_EQ(bench.take(wire::Method::kCheckpoint).decode<wire::Checkpoint>().refs.size(), 1u);
  the_ref = {};
  const auto kept = [&] {
    CoreLock lock(bench.core);
    return bool(bench.core.objects().find_owned(named));
  };
  checkpoint_of(net::kPayloadMax + 1);
  EXPECT_EQ(bench.count(wire::Method::kCheckpoint), 0u);
  EXPECT_TRUE(kept());
  checkpoint_of(2);
  EXPECT_EQ(bench.take(wire::Method::kCheckpoint).decode<wire::Checkpoint>().state.body.size(), 2u);
  EXPECT_FALSE(kept());
}

void construct_with_ref(detail::Invocation& in) {
  in.constructed = &the_actor;
  the_ref = in.attachments->objects.at(0);
}
detail::FunctionNode ref_constructor{detail::FunctionKind::kConstructor, &construct_with_ref, "[with A = Holder]",
                                     &operations};

/// Refs of arguments are counted by their owner before the creator lets go of them: an actor that lives already is no
/// proof of that. (A.1, KP-4)
TEST(Construction, TheCreatorIsToldWhenWhatItHeldIsCounted) {
  detail::freeze_registry();
  Bench bench(wire::Role::kWorker);
  bench.attached_peers.insert(kMaker);
  bench.attached_peers.insert(kOther);
  const ObjectId inside{kOther, 4};
  wire::ConstructActor message;
  message.spec.id = {kMaker, 3};
  message.spec.creator = kMaker;
  message.spec.constructor = ref_constructor.index;
  message.spec.arguments.refs = {{inside}};
  bench.notice(wire::Method::kConstructActor, message);
  bench.do_work();
  EXPECT_EQ(bench.count(wire::Method::kActorStarted), 1u);
  EXPECT_EQ(bench.count(Control::kBorrow), 1u);
  EXPECT_EQ(bench.count(wire::Method::kArgumentsTaken), 0u);
  net::FrameHeader borrowed;
  borrowed.kind = std::uint8_t(wire::FrameKind::kControl);
  borrowed.arg0 = std::uint64_t(Control::kBorrowed);
  std::vector<std::byte> payload(sizeof inside);
  std::memcpy(payload.data(), &inside, sizeof inside);
  bench.deliver(kOther, borrowed, payload);
  EXPECT_EQ(bench.take(wire::Method::kArgumentsTaken).header.destination, kMaker);
  the_ref = {};
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

/// A generator whose reader died with its node waited for it for ever, and so did its actor (the simulator, seed 858 of
/// `cores`).
TEST(SourcesThatDie, AGeneratorEndsWithItsReaderAlsoWhereAWholeNodeDied) {
  const ProcessId far{2, 9};
  for (const bool with_its_node : {false, true}) {
    Bench bench(wire::Role::kWorker);
    CallHead head = task(11, 5);
    head.stream = 1;
    std::vector<bool> dropped;
    bench.run_call = [&](const IncomingPtr& incoming, HostedActor*) {
      CallContext context;
      bench.core.host().begin_run(incoming, nullptr, context);
      bench.notice(wire::Method::kNodeDied, wire::NodeDied{3, "c", "gone"});
      dropped.push_back(incoming->dropped);  // not its reader's
      wire::ProcessDied died;
      died.process = far;
      if (with_its_node) bench.notice(wire::Method::kNodeDied, wire::NodeDied{2, "b", "gone"});
      else bench.notice(wire::Method::kProcessDied, died);
      dropped.push_back(incoming->dropped);
      detail::Invocation invocation;
      bench.core.host().end_run(incoming, nullptr, context, invocation, nullptr);
    };
    call(bench, far, head);
    std::function<void()> work;
    {
      CoreLock lock(bench.core);
      ASSERT_TRUE(bench.core.host().next_work(work));
    }
    work();
    EXPECT_EQ(dropped, (std::vector{false, true})) << with_its_node;
  }
}

/// A generator that began after its reader's death waited for it for ever, and so did its actor: in line behind another
/// call, before its actor was here, or on its way to a thread when the reader died. (the simulator, seed 5496 of
/// `cores`)
TEST(SourcesThatDie, HO8_AGeneratorThatBeginsAfterItsReadersDeathMakesNothing) {
  Bench bench(wire::Role::kWorker);
  const ActorId here{kMaker, 1}, to_come{kMaker, 2};
  std::map<std::uint64_t, bool> dropped;
  bench.run_call = [&](const IncomingPtr& incoming, HostedActor* hosted) {
    CallContext context;
    bench.core.host().begin_run(incoming, hosted, context);
    dropped[incoming->head.call_id] = incoming->dropped;
    detail::Invocation invocation;
    bench.core.host().end_run(incoming, hosted, context, invocation, nullptr);
  };
  auto read = [](CallHead head) {
    head.stream = 1;
    return head;
  };
  call(bench, kMaker, construction(1, here));
  call(bench, kMaker, read(light_call(10, here)));
  call(bench, kOther, read(light_call(11, here)));
  call(bench, kOther, light_call(12, here));
  call(bench, kOther, read(light_call(13, to_come)));
  call(bench, kOther, read(task(14, 5)));
  call(bench, kOther, task(15, 6, true));
  std::function<void()> taken;
  {
    CoreLock lock(bench.core);
    ASSERT_TRUE(bench.core.host().next_work(taken));
  }
  wire::ProcessDied died;
  died.process = kOther;
  bench.notice(wire::Method::kProcessDied, died);
  call(bench, kMaker, construction(2, to_come));
  bench.do_work();
  taken();
  EXPECT_EQ(dropped, (std::map<std::uint64_t, bool>{
                         {10, false}, {11, true}, {12, false}, {13, true}, {14, true}, {15, true}}))
      << "a method that nobody reads runs all the same";
}

/// A task that lent its CPUs is the last of its lease: what is behind it goes back, and what comes later. (H.5, HO-6)
TEST(LentCpus, NoTaskBeginsUnderALeaseThatLentThem) {
  Bench bench(wire::Role::kWorker);
  call(bench, kOther, task(1, 5));
  bench.run_call = [&](const IncomingPtr& incoming, HostedActor*) {
    CallContext context;
    bench.core.host().begin_run(incoming, nullptr, context);
    {
      CoreLock lock(bench.core);
      if (incoming->head.call_id == 1) {
        bench.core.task_waits().task_blocked(context, true);
        bench.core.task_waits().task_blocked(context, false);
      }
    }
    call(bench, kOther, task(2, 5));  // pushed while it goes on
    detail::Invocation invocation;
    invocation.results.emplace_back();
    bench.core.host().end_run(incoming, nullptr, context, invocation, nullptr);
  };
  std::function<void()> work;
  {
    CoreLock lock(bench.core);
    ASSERT_TRUE(bench.core.host().next_work(work));
  }
  work();
  EXPECT_EQ(bench.count(Control::kRecalled), 1u);
  const auto replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(reply_of(replies[0]).lent, 1);
  call(bench, kOther, task(3, 5));  // pushed before its submitter had the reply
  EXPECT_EQ(bench.count(Control::kRecalled), 2u);
  call(bench, kOther, task(4, 6));
  EXPECT_EQ(bench.count(Control::kRecalled), 2u) << "another lease has its CPUs";
  CoreLock lock(bench.core);
  EXPECT_TRUE(bench.core.host().next_work(work));
}

/// A kill interrupts what runs: that may have been executed, what has not begun was not. (A.12)
TEST(LightActors, AKillTellsWhatHadBegun) {
  Bench bench(wire::Role::kWorker);
  const ActorId actor{kMaker, 1};
  call(bench, kMaker, construction(1, actor));
  call(bench, kOther, light_call(11, actor));
  call(bench, kOther, light_call(12, actor));
  Outcome interrupted{};
  bench.run_call = [&](const IncomingPtr& incoming, HostedActor* hosted) {
    CallContext context;
    bench.core.host().begin_run(incoming, hosted, context);
    bench.notice(wire::Method::kEndActor, wire::EndActor{actor, DeathCause::kKilled, "killed by kill()"});
    ASSERT_TRUE(context.interrupt);
    interrupted = context.interrupt->record().outcome;
    detail::Invocation invocation;
    bench.core.host().end_run(incoming, hosted, context, invocation, context.interrupt);
  };
  bench.do_work();
  ASSERT_EQ(bench.ran.size(), 1u);
  EXPECT_EQ(interrupted, Outcome::kUnknown);
  const auto replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 3u) << "the construction's, and both calls'";
  for (const auto& frame : {replies[1], replies[2]}) {
    const auto record = wire::decode_message<ErrorRecord>(ByteView(frame.payload).subspan(sizeof(ReplyHead))).value();
    EXPECT_EQ(record.outcome, reply_of(frame).call_id == 11 ? Outcome::kUnknown : Outcome::kNotExecuted);
    EXPECT_EQ(reply_of(frame).index, reply_of(frame).call_id == 11 ? 0 : kNotBegun) << "CAC-6";
  }
}

/// The head was told to end it by others, and its word came before the maker's frame.
TEST(LightActors, HO9_WhatIsEndedBeforeItsConstructionComesIsNotConstructed) {
  Bench bench(wire::Role::kWorker);
  const ActorId made{kMaker, 1}, ended{kMaker, 2};
  call(bench, kMaker, construction(1, made));
  const wire::EndActor end{ended, DeathCause::kKilled, "killed by kill()", true};
  bench.notice(wire::Method::kEndActor, end);
  call(bench, kOther, light_call(11, ended));
  bench.do_work();
  bench.take_kind(wire::FrameKind::kReply);
  call(bench, kMaker, construction(2, ended));
  call(bench, kMaker, light_call(12, ended));
  bench.do_work();
  const auto replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 3u);
  for (const auto& frame : replies) {
    const auto record = wire::decode_message<ErrorRecord>(ByteView(frame.payload).subspan(sizeof(ReplyHead))).value();
    EXPECT_EQ(record.code, ErrorCode::kActorDied);
    EXPECT_EQ(record.outcome, Outcome::kNotExecuted);
  }
  call(bench, kMaker, construction(3, {kMaker, 3}));
  bench.do_work();
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kReply).size(), 1u) << "its neighbours are constructed";
}

/// A worker with a light actor that is in the midst of a call, and is told of ends and of further lives.
class LightActorLives : public ::testing::Test {
 protected:
  LightActorLives() {
    detail::freeze_registry();
    life_.spec.id = {kMaker, 1};
    life_.spec.isolation = Isolation::kLight;
    life_.spec.constructor = constructor.index;
    bench_.run_call = [this](const IncomingPtr& incoming, HostedActor* hosted) {
      bench_.core.host().begin_run(running_ = incoming, host_of_ = hosted, context_);
    };
  }
  /// The life that life_ says.
  void construct() { bench_.notice(wire::Method::kConstructActor, life_); }
  void construct_next() {
    ++life_.restarts;
    construct();
  }
  void begin_call() {
    call(bench_, kOther, {.call_id = 1, .actor = life_.spec.id, .returns = 1, .kind = CallKind::kActorCall});
    bench_.do_work();
    ASSERT_TRUE(running_);
  }
  void end_call() {
    detail::Invocation invocation;
    bench_.core.host().end_run(running_, host_of_, context_, invocation, context_.interrupt);
    bench_.do_work();
  }
  void end(const wire::EndActor& how) { bench_.notice(wire::Method::kEndActor, how); }
  int started() { return bench_.take(wire::Method::kActorStarted).decode<wire::ActorStarted>().restarts; }
  int exited() { return bench_.take(wire::Method::kActorExited).decode<wire::ActorExited>().restarts; }

  Bench bench_{wire::Role::kWorker};
  wire::ConstructActor life_;
  const wire::EndActor kill_{{kMaker, 1}, DeathCause::kKilled, "killed by kill()"};

 private:
  CallContext context_;
  IncomingPtr running_;
  HostedActor* host_of_ = nullptr;
};

/// The head has waited long enough for its end, and begins the next life in the same host: the method that still runs
/// there ends when it likes.
TEST_F(LightActorLives, HO10_TheNextLifeBeginsWhenTheOneBeforeHasEnded) {
  life_.spec.max_restarts = -1;
  construct();
  bench_.do_work();
  EXPECT_EQ(started(), 0);
  begin_call();
  end(kill_);
  bench_.do_work();
  construct_next();
  construct_next();  // the head tried once more
  construct();
  bench_.do_work();
  EXPECT_EQ(bench_.count(wire::Method::kActorStarted), 0u) << "two lives of an actor are never at once";
  end_call();
  EXPECT_EQ(exited(), 1) << "its resources are free";
  EXPECT_EQ(exited(), 0);
  EXPECT_EQ(started(), 2);
  EXPECT_EQ(bench_.count(wire::Method::kActorStarted), 0u);
  end(kill_);
  bench_.do_work();
  EXPECT_EQ(exited(), 2);
}

/// What ends it while its next life waits ends both.
TEST_F(LightActorLives, HO10_TheLifeThatWaitsEndsAtOnceWhenItsLastHandleIsGone) {
  construct();
  bench_.do_work();
  begin_call();
  end(kill_);
  construct_next();
  bench_.notice(wire::Method::kActorHandlesGone, wire::ResolveActor{life_.spec.id});
  EXPECT_EQ(exited(), 1);
  end_call();
  EXPECT_EQ(exited(), 0);
  EXPECT_EQ(bench_.count(wire::Method::kActorStarted), 1u) << "the first one's";
}

TEST_F(LightActorLives, HO10_AKillReachesTheLifeThatWaits) {
  construct();
  bench_.do_work();
  begin_call();
  end(kill_);
  construct_next();
  wire::EndActor stray = kill_;
  stray.restarts = 0;
  end(stray);
  EXPECT_EQ(bench_.count(wire::Method::kActorExited), 0u) << "the life before was meant";
  end(kill_);
  EXPECT_EQ(exited(), 1) << "at once";
  end_call();
  EXPECT_EQ(exited(), 0);
  EXPECT_EQ(bench_.count(wire::Method::kActorStarted), 1u) << "the first one's";
  CoreLock lock(bench_.core);
  EXPECT_EQ(bench_.core.host().hosted(life_.spec.id), nullptr);
}

/// A result that names more than a message holds is an error of the call, not silence. (A.15)
TEST(LargeResults, WhatDoesNotFitAMessageIsATypedError) {
  Bench bench(wire::Role::kWorker);
  const ActorId actor{kMaker, 1};
  call(bench, kMaker, construction(1, actor));
  call(bench, kOther, light_call(11, actor));
  bench.run_call = [&](const IncomingPtr& incoming, HostedActor* hosted) {
    CallContext context;
    bench.core.host().begin_run(incoming, hosted, context);
    detail::Invocation invocation;
    detail::Value& result = invocation.results.emplace_back();
    result.attachments = std::make_unique<detail::Attachments>();
    result.attachments->buffers.assign(3'000'000, bench.remote_value().large_body);
    bench.core.host().end_run(incoming, hosted, context, invocation, nullptr);
  };
  bench.do_work();
  const auto replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(reply_of(replies[1]).status, ReplyStatus::kError);
  const auto record = wire::decode_message<ErrorRecord>(ByteView(replies[1].payload).subspan(sizeof(ReplyHead)));
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->code, ErrorCode::kInvalidArgument);
  EXPECT_NE(record->message.find("do not fit one message"), std::string::npos);
}

/// What an actor keeps by key goes after its hour, also when nobody comes with another; until then it is given again.
TEST(KeyedCalls, HA5_WhatIsKeptGoesByItself) {
  Bench bench(wire::Role::kWorker);
  const ActorId actor{kMaker, 1};
  const detail::BufferPtr named = bench.remote_value().large_body;
  call(bench, kMaker, construction(1, actor));
  call(bench, kOther, light_call(11, actor), "k");
  int ran = 0;
  bench.run_call = [&](const IncomingPtr& incoming, HostedActor* hosted) {
    ++ran;
    CallContext context;
    bench.core.host().begin_run(incoming, hosted, context);
    detail::Invocation invocation;
    detail::Value& result = invocation.results.emplace_back();
    result.attachments = std::make_unique<detail::Attachments>();
    result.attachments->buffers.push_back(named);
    bench.core.host().end_run(incoming, hosted, context, invocation, nullptr);
  };
  bench.do_work();
  bench.advance(30min);
  call(bench, kOther, light_call(12, actor), "k");
  bench.do_work();
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kReply).size(), 3u) << "the construction's, the call's, and its own again";
  EXPECT_EQ(ran, 1);
  const auto owners = named->use_count();  // this test, both replies until they are acknowledged, and what is kept
  EXPECT_EQ(owners, 4u);
  bench.advance(31min);
  EXPECT_EQ(named->use_count(), owners - 1);
}

/// Of two calls with one key that came while the next life was constructed the second was never answered, and the first
/// ran, though both had been executed.
TEST(KeyedCalls, HA3_AKeyOfACheckpointIsAnsweredAlsoWhileTheNextLifeIsConstructed) {
  detail::freeze_registry();
  std::vector<std::byte> keys;
  state_bytes = 1;
  {
    Bench before(wire::Role::kWorker);
    construct_saved(before, large_constructor);
    before.run_call = [&](const IncomingPtr& incoming, HostedActor* hosted) {
      CallContext context;
      before.core.host().begin_run(incoming, hosted, context);
      detail::Invocation invocation;
      invocation.results.emplace_back();
      before.core.host().end_run(incoming, hosted, context, invocation, nullptr);
    };
    before.advance(1ms);
    call(before, kOther, {.call_id = 1, .actor = kSaved, .returns = 1, .kind = CallKind::kActorCall}, "k");
    before.do_work();
    keys = before.take(wire::Method::kCheckpoint).decode<wire::Checkpoint>().keys;
  }
  ASSERT_FALSE(keys.empty());
  Bench after(wire::Role::kWorker);
  wire::ConstructActor message;
  message.spec.id = kSaved;
  message.spec.constructor = large_constructor.index;
  message.restarts = 1;
  message.checkpoint.emplace();
  message.checkpoint->keys = keys;
  after.notice(wire::Method::kConstructActor, message);
  int ran = 0;
  after.run_call = [&](const IncomingPtr&, HostedActor*) { ++ran; };
  for (const std::uint64_t id : {2, 3})
    call(after, kOther, {.call_id = id, .actor = kSaved, .returns = 1, .kind = CallKind::kActorCall}, "k");
  after.do_work();
  EXPECT_EQ(after.take_kind(wire::FrameKind::kReply).size(), 2u);
  EXPECT_EQ(ran, 0);
}

/// The GPUs of its lease are in a task's context. (A.20)
TEST(TaskGrants, ATaskKnowsItsGpus) {
  detail::freeze_registry();
  Bench driver, worker(wire::Role::kWorker);
  driver.attached_peers.insert(kOther);
  TaskOptions options;
  options.resources.gpus = 2;
  const auto result = driver.submit(&options);
  const auto wanted = driver.take(wire::Method::kLeaseWanted).decode<wire::LeaseWanted>();
  driver.notice(wire::Method::kLeaseGranted, wire::LeaseGranted{wanted.request_id, 1, kOther, 100, {3, 5}, false});
  const auto sent = driver.take_kind(wire::FrameKind::kCall);
  ASSERT_EQ(sent.size(), 1u);
  worker.run_call = [&](const IncomingPtr& incoming, HostedActor*) {
    CallContext context;
    worker.core.host().begin_run(incoming, nullptr, context);
    EXPECT_EQ(context.gpu_ids, std::vector({3, 5})) << "on f0736ec: none";
    EXPECT_EQ(context.resources.gpus, 2);
    detail::Invocation invocation;
    invocation.results.emplace_back();
    worker.core.host().end_run(incoming, nullptr, context, invocation, nullptr);
  };
  worker.attached_peers.insert(kMaker);
  net::FrameHeader header = sent[0].header;
  header.source = kMaker;
  worker.deliver(kMaker, header, sent[0].payload);
  std::function<void()> work;
  {
    CoreLock lock(worker.core);
    ASSERT_TRUE(worker.core.host().next_work(work));
  }
  work();
  EXPECT_EQ(worker.ran.size(), 1u);
}

/// A frame whose texts are longer than it is. (FM-1)
TEST(TaskGrants, ACutFrameIsAnsweredWithAnError) {
  Bench bench(wire::Role::kWorker);
  CallHead head = task(1, 5);
  head.resources_size = 4000;
  call(bench, kOther, head);
  const auto replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(reply_of(replies[0]).status, ReplyStatus::kError);
}

/// Its header says whose it is, so that its caller does not wait for ever.
TEST(BadFrame, RFM1_ACallWhoseHeadIsCutOffIsAnswered) {
  Bench bench(wire::Role::kWorker);
  bench.attached_peers.insert(kOther);
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kCall);
  header.arg0 = 77;
  bench.deliver(kOther, header, std::vector<std::byte>(sizeof(CallHead) - 1));
  const auto replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(reply_of(replies[0]).call_id, 77u);
  EXPECT_EQ(reply_of(replies[0]).status, ReplyStatus::kError);
}

// --------------------------------------------------------------------------------------------------------- checkpoints

int checkpoints_taken = 0;
void take_checkpoint(const void*, detail::Value&) { ++checkpoints_taken; }
const detail::ClassOperations keeping{&destroy, &take_checkpoint, nullptr};
detail::FunctionNode keeper{detail::FunctionKind::kConstructor, &construct, "[with A = Keeper]", &keeping};

/// An actor with several calls open at once, whose checkpoint is due each second; calls end when the test says so.
class BusyActor {
 public:
  explicit BusyActor(int max_concurrency) : bench(wire::Role::kWorker) {
    detail::freeze_registry();
    checkpoints_taken = 0;
    wire::ConstructActor message;
    message.spec.id = actor;
    message.spec.constructor = keeper.index;
    message.spec.max_concurrency = max_concurrency;
    message.spec.checkpoint_every = std::chrono::seconds(1);
    bench.run_call = [this](const IncomingPtr& incoming, HostedActor* hosted) {
      open.emplace_back(incoming, std::make_unique<CallContext>());
      bench.core.host().begin_run(incoming, host_of = hosted, *open.back().second);
    };
    bench.notice(wire::Method::kConstructActor, message);
    bench.do_work();
  }
  ~BusyActor() {
    while (!open.empty()) end_first();
  }
  void arrives(std::uint64_t id) {
    call(bench, kOther, {.call_id = id, .actor = actor, .returns = 1, .kind = CallKind::kActorCall});
    bench.do_work();
  }
  void end_first() {
    auto [incoming, context] = std::move(open.front());
    open.erase(open.begin());
    detail::Invocation invocation;
    invocation.results.emplace_back();
    bench.core.host().end_run(incoming, host_of, *context, invocation, nullptr);
    bench.do_work();
  }

  const ActorId actor{kMaker, 1};
  std::vector<std::pair<IncomingPtr, std::unique_ptr<CallContext>>> open;
  HostedActor* host_of = nullptr;
  Bench bench;
};

/// Calls come without end: they wait for the checkpoint that is due. (A.11, HA-2)
TEST(BusyCheckpoints, OneThatIsDueHoldsBackNewCalls) {
  BusyActor busy(2);
  busy.arrives(1);
  busy.end_first();  // something to keep
  busy.arrives(2);
  busy.bench.advance(std::chrono::seconds(2));
  busy.arrives(3);
  EXPECT_EQ(busy.open.size(), 1u) << "on f0736ec it began, and so always one was open";
  EXPECT_EQ(checkpoints_taken, 0) << "not while a call is open";
  busy.end_first();
  EXPECT_EQ(checkpoints_taken, 1);
  ASSERT_EQ(busy.open.size(), 1u);
  EXPECT_EQ(busy.open[0].first->head.call_id, 3u);
}

/// The open call may wait for one that has yet to begin: calls are held back for a moment only.
TEST(BusyCheckpoints, CallsThatWaitForOthersAreNotHeldUpForGood) {
  BusyActor busy(2);
  busy.arrives(1);
  busy.end_first();
  busy.arrives(2);
  busy.bench.advance(std::chrono::seconds(2));
  busy.arrives(3);
  EXPECT_EQ(busy.open.size(), 1u);
  busy.bench.advance(std::chrono::seconds(1));
  busy.bench.do_work();
  ASSERT_EQ(busy.open.size(), 2u);
  busy.arrives(4);
  busy.end_first();
  EXPECT_EQ(busy.open.size(), 2u) << "the next one begins at once";
  busy.bench.advance(std::chrono::seconds(30));
  busy.arrives(5);
  busy.end_first();
  EXPECT_EQ(busy.open.size(), 1u) << "it is tried again later";
  busy.end_first();
  EXPECT_EQ(checkpoints_taken, 1);
  EXPECT_EQ(busy.open.size(), 1u);
}

/// One call ends its actor while another one waits, perhaps for good. The head says a kill once more to a host that it
/// heard of late: one interruption each.
TEST(ExitActor, AKillReachesWhatStillRuns) {
  BusyActor busy(2);
  busy.arrives(1);
  busy.arrives(2);
  ASSERT_EQ(busy.open.size(), 2u);
  busy.open[0].second->exit_asked = true;
  busy.end_first();
  CallContext& waits = *busy.open[0].second;
  EXPECT_EQ(waits.interrupt, nullptr) << "it leaves when its calls have ended";
  const wire::EndActor end{busy.actor, DeathCause::kKilled, "killed by kill()"};
  busy.bench.notice(wire::Method::kEndActor, end);
  ASSERT_NE(waits.interrupt, nullptr);
  EXPECT_EQ(waits.interrupt->record().outcome, Outcome::kUnknown);
  waits.interrupt = nullptr;  // thrown: it cleans up, and waits there
  busy.bench.notice(wire::Method::kEndActor, end);
  EXPECT_EQ(waits.interrupt, nullptr);
}

TEST(BusyCheckpoints, OfOneCallAtATimeTheEndIsAwaited) {
  BusyActor busy(1);
  busy.arrives(1);
  busy.end_first();
  busy.arrives(2);
  busy.arrives(3);
  busy.bench.advance(std::chrono::seconds(10));
  EXPECT_EQ(busy.open.size(), 1u);
  busy.end_first();
  EXPECT_EQ(checkpoints_taken, 1);
  EXPECT_EQ(busy.open.size(), 1u);
}

/// One call that does not end kept everything that other keys had brought.
TEST(KeyedCalls, HA5_WhatIsUnderWayKeepsNothingElse) {
  BusyActor busy(2);
  call(busy.bench, kOther, {.call_id = 1, .actor = busy.actor, .returns = 1, .kind = CallKind::kActorCall}, "waits");
  call(busy.bench, kOther, {.call_id = 2, .actor = busy.actor, .returns = 1, .kind = CallKind::kActorCall}, "k");
  busy.bench.do_work();
  ASSERT_EQ(busy.open.size(), 2u);
  std::swap(busy.open[0], busy.open[1]);
  busy.end_first();
  const auto asked = [&](std::uint64_t id) {
    busy.bench.take_kind(wire::FrameKind::kReply);
    call(busy.bench, kOther, {.call_id = id, .actor = busy.actor, .returns = 1, .kind = CallKind::kActorCall}, "k");
    busy.bench.do_work();
    return busy.bench.take_kind(wire::FrameKind::kReply).size();
  };
  busy.bench.advance(59min);
  EXPECT_EQ(asked(3), 1u) << "it is given again";
  busy.bench.advance(2min);
  EXPECT_EQ(asked(4), 0u) << "it runs again";
  EXPECT_EQ(busy.open.size(), 2u);
}

/// Its answer names what somebody else owns, which is counted for nobody before it was taken in. (OH-1, WK-2)
TEST(Retirement, WhoseAnswerIsNotTakenInMayNotEnd) {
  Bench bench(wire::Role::kWorker);
  bench.run_call = [&](const IncomingPtr& incoming, HostedActor*) {
    CallContext context;
    bench.core.host().begin_run(incoming, nullptr, context);
    detail::Invocation invocation;
    detail::Value& result = invocation.results.emplace_back();
    result.attachments = std::make_unique<detail::Attachments>();
    result.attachments->buffers.push_back(bench.remote_value().large_body);
    bench.core.host().end_run(incoming, nullptr, context, invocation, nullptr);
  };
  call(bench, kOther, task(1, 5));
  std::function<void()> work;
  {
    CoreLock lock(bench.core);
    ASSERT_TRUE(bench.core.host().next_work(work));
  }
  work();
  const auto replies = bench.take_kind(wire::FrameKind::kReply);
  ASSERT_EQ(replies.size(), 1u);
  const auto may_end = [&] {
    CoreLock lock(bench.core);
    return bench.core.host().idle();
  };
  EXPECT_FALSE(may_end());
  const std::uint64_t hold = reply_of(replies[0]).hold;
  net::FrameHeader ack;
  ack.kind = std::uint8_t(wire::FrameKind::kControl);
  ack.arg0 = std::uint64_t(Control::kHoldAck);
  std::vector<std::byte> payload(sizeof hold);
  std::memcpy(payload.data(), &hold, sizeof hold);
  bench.deliver(kOther, ack, payload);
  EXPECT_TRUE(may_end());
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

/// What a frozen caller asked for is not made before it takes what it got: its replies lie in this process's memory.
/// Others' calls pass. (REVIEW B.5, HO-7, HA-4)
TEST(ReplyRoom, HO7_NothingBeginsForACallerThatTakesNoReplies) {
  Bench bench(wire::Role::kWorker);
  const ActorId actor{kMaker, 1};
  bench.run_call = [&](const IncomingPtr& one, HostedActor* host) {
    CallContext context;
    bench.core.host().begin_run(one, host, context);
    detail::Invocation invocation;
    detail::Value large;
    large.body = detail::Bytes(ReplyRoom::kLarge);
    invocation.results.push_back(std::move(large));
    bench.core.host().end_run(one, host, context, invocation, nullptr);
  };
  call(bench, kMaker, construction(1, actor));
  bench.do_work();
  bench.backlogs[kMaker] = ReplyRoom::kHigh + 1;
  for (std::uint64_t id : {11, 12, 13}) call(bench, kMaker, light_call(id, actor));
  for (std::uint64_t id : {21, 22}) call(bench, kOther, light_call(id, actor));
  call(bench, kMaker, task(14, 5));
  bench.do_work();
  const auto ids = [&] {
    std::vector<std::uint64_t> ran;
    for (const auto& one : bench.ran) ran.push_back(one->head.call_id);
    return ran;
  };
  EXPECT_EQ(ids(), (std::vector<std::uint64_t>{11, 21, 22})) << "the first showed it";
  std::function<void()> next;
  {
    CoreLock lock(bench.core);
    EXPECT_FALSE(bench.core.host().next_work(next));
  }
  bench.backlogs[kMaker] = ReplyRoom::kLow;
  bench.advance(20ms);
  bench.do_work();
  EXPECT_EQ(bench.ran.size(), 3u) << "not yet: whoever is let go at the brim is held again at once";
  bench.backlogs.clear();
  bench.advance(20ms);
  bench.do_work();
  EXPECT_EQ(ids(), (std::vector<std::uint64_t>{11, 21, 22, 12, 13})) << "in order";
  CoreLock lock(bench.core);
  EXPECT_TRUE(bench.core.host().next_work(next));
}

/// The sum that decision 022 promises, of all kinds of calls at once: an actor's, tasks, and tasks of shared leases.
TEST(ReplyRoom, XRR1_WhatFrozenCallersCostIsBounded) {
  constexpr std::size_t kReply = 100 << 10;
  constexpr std::uint64_t kCallers = 6, kCalls = 200, kShared = 3;  // each: 41 MB of replies, were they all made
  Bench bench(wire::Role::kWorker);
  bench.run_call = [&](const IncomingPtr& one, HostedActor* host) {
    CallContext context;
    bench.core.host().begin_run(one, host, context);
    detail::Invocation invocation;
    detail::Value large;
    large.body = detail::Bytes(kReply);
    invocation.results.push_back(std::move(large));
    bench.core.host().end_run(one, host, context, invocation, nullptr);
  };
  bench.on_send = [&](ProcessId ring) {
    bench.backlogs[ring] += sizeof(net::FrameHeader) + bench.sent.back().payload.size();
  };
  const ActorId actor{kMaker, 1};
  call(bench, kMaker, construction(1, actor));
  bench.do_work();
  std::map<ProcessId, std::uint64_t> begun;
  for (std::uint64_t i = 0; i < kCallers; ++i) {
    const ProcessId caller{1, std::uint32_t(20 + i)};
    for (std::uint64_t n = 0; n < kCalls; ++n) {
      call(bench, caller, light_call(2 + 2 * n, actor));
      call(bench, caller, task(3 + 2 * n, 1000 + i));
    }
    for (std::uint64_t n = 0; n < kShared; ++n) call(bench, caller, task(5000 + n, 2000 + n, true));
  }
  for (bool more = true; more;) {
    bench.do_work();
    std::function<void()> next;
    {
      CoreLock lock(bench.core);
      more = bench.core.host().next_work(next);
    }
    if (more) next();
  }
  for (const auto& one : bench.ran) ++begun[one->source];
  constexpr std::size_t kFrame = kReply + 4096, kBound = ReplyRoom::kHigh + (1 + 1 + kShared) * kFrame;
  std::size_t all = 0;
  for (std::uint64_t i = 0; i < kCallers; ++i) {
    const ProcessId caller{1, std::uint32_t(20 + i)};
    EXPECT_LE(bench.backlogs[caller], kBound);
    EXPECT_GE(bench.backlogs[caller], ReplyRoom::kHigh) << "no caller is held for another's sake (XRR-2)";
    EXPECT_LT(begun[caller], 2 * kCalls);
    all += bench.backlogs[caller];
  }
  EXPECT_LE(all, kCallers * kBound);
  bench.sent.clear();
  for (auto& [caller, bytes] : bench.backlogs) bytes = 0;  // they take what waits, again and again
  for (int round = 0; round < 100; ++round) {
    bench.advance(20ms);
    bench.do_work();
    std::function<void()> next;
    for (bool more = true; more;) {
      {
        CoreLock lock(bench.core);
        more = bench.core.host().next_work(next);
      }
      if (more) next();
    }
    for (auto& [caller, bytes] : bench.backlogs) bytes = 0;
  }
  EXPECT_EQ(bench.ran.size(), kCallers * (2 * kCalls + kShared)) << "and everything runs in the end";
}

/// Under asan: at 74e026e the first call was gone, and still in the list that the second one is put into.
TEST(LightActors, ACallThatNeverRunsInAProcessThatIsCutOffIsForgotten) {
  Bench bench(wire::Role::kWorker);
  bench.run_call = [&](const IncomingPtr& incoming, HostedActor* actor) {
    CallRunner(bench.core, bench.core.owner(), bench.core.host()).run(incoming, actor);
  };
  const ActorId first{kMaker, 1}, second{kMaker, 2};
  call(bench, kMaker, construction(1, first));
  call(bench, kMaker, construction(2, second));
  bench.do_work();
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kReply).size(), 2u);
  call(bench, kMaker, light_call(3, first));
  bench.core.set_cut_off();
  bench.do_work();
  bench.ran.clear();
  call(bench, kMaker, light_call(4, second));
  bench.do_work();
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kReply).size(), 0u);
}

}  // namespace
}  // namespace troupe::worker
