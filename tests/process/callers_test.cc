// The submitting side, event by event: retries, deadlines, what a lost node leaves, what is forgotten.
#include <array>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <thread>

#include <troupe/objects.h>

#include "core/caller/streams.h"
#include "core/runtime/waits.h"
#include "tests/process/bench.h"

namespace troupe::worker {
namespace {

using namespace std::chrono_literals;

const ProcessId kWorker{2, 5};

ErrorPtr task_error() {
  ErrorRecord record;
  record.code = ErrorCode::kTask;
  record.message = "the function failed";
  return Error::make(std::move(record));
}

/// The driver outlives its daemon for a moment: what nobody waited for then fails as well, for nobody will settle it.
TEST(DaemonLost, WhatIsPendingFailsAlsoWithoutAWaiter) {
  Bench bench;
  detail::ObjectPtr promised;
  {
    CoreLock lock(bench.core);
    promised = detail::ObjectPtr::adopt(bench.core.objects().make_owned());
  }
  const auto call = bench.submit();
  bench.core.begin_shutdown(make_error<NodeDiedError>("the node daemon is gone"));
  EXPECT_EQ(Bench::code_of(promised), ErrorCode::kNodeDied);
  EXPECT_EQ(Bench::code_of(call), ErrorCode::kNodeDied);
  EXPECT_EQ(Bench::code_of(bench.submit()), ErrorCode::kNodeDied) << "and so does what is asked for later";
}

/// Two calls of one lease on a node that is lost: the first may have been executed before, and the second begun. (A.9)
TEST(LostNode, NothingThatMayHaveRunRunsAgainWithoutRetries) {
  Bench bench;
  const auto warm = bench.submit();
  bench.grant(kWorker);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), nullptr, 10);  // short: more than one goes to a worker
  TaskOptions once;
  once.retry.max_retries = 0;
  const auto first = bench.submit(&once), second = bench.submit(&once);
  ASSERT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 2u);
  bench.notice(wire::Method::kNodeDied, wire::NodeDied{2, "b", "no heartbeat"});
  EXPECT_EQ(Bench::code_of(first), ErrorCode::kNodeDied);
  EXPECT_EQ(Bench::code_of(second), ErrorCode::kNodeDied) << "it may have begun, or even ended";
  bench.advance(20s);
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 0u);
}

/// A task that is a generator, sent to kWorker; its reader takes one item ahead.
detail::StreamPtr submit_stream(Bench& bench) {
  static detail::FunctionNode function{detail::FunctionKind::kFunction, nullptr, "[with auto F = model]"};
  detail::OutgoingCall outgoing;
  outgoing.function = &function;
  outgoing.returns = 0;
  auto* stream = new StreamState(bench.core, bench.core.caller(), 1);
  detail::StreamPtr reader(stream);
  {
    CoreLock lock(bench.core);
    bench.core.tasks().submit(std::move(outgoing), nullptr, nullptr, stream);
  }
  bench.grant(kWorker);
  return reader;
}

/// An item of a stream, as its producer sends it.
void give_item(Bench& bench, const SentFrame& call, std::uint64_t index) {
  std::vector<std::byte> memory;
  FrameWriter out(memory);
  CallHead head;
  std::memcpy(&head, call.payload.data(), sizeof head);
  out.put(ReplyHead{.call_id = head.call_id, .index = index, .values = 1});
  out.put(ValueHead{});
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kStreamItem);
  header.source = call.header.destination;
  bench.deliver(call.ring, header, memory);
}

/// What the reader takes while the next attempt waits in its worker that attempt never hears (Host::stream_credit knows
/// calls that run), and with a window of one item it waited for ever, and so did the reader.
TEST(StreamRetry, ST3_AnAttemptThatBringsAnItemAgainIsToldHowFarTheReaderIs) {
  Bench bench;
  const detail::StreamPtr reader = submit_stream(bench);
  auto* const stream = static_cast<StreamState*>(reader.get());
  give_item(bench, bench.take_kind(wire::FrameKind::kCall).at(0), 0);
  wire::ProcessDied died;
  died.process = kWorker;
  died.begun = {{Bench::kSelf, 1}};
  bench.notice(wire::Method::kProcessDied, died);
  bench.advance(20s);
  bench.grant({2, 6});
  const SentFrame again = bench.take_kind(wire::FrameKind::kCall).at(0);
  EXPECT_EQ(again.header.arg1, 0u) << "nothing was taken when it was sent";
  detail::ObjectPtr item;
  {
    CoreLock lock(bench.core);
    ASSERT_TRUE(stream->take(item));
  }
  EXPECT_EQ(bench.take(Control::kStreamCredit).header.arg2, 1u) << "which a call that does not run yet never hears";
  give_item(bench, again, 0);
  EXPECT_EQ(bench.take(Control::kStreamCredit).header.arg2, 1u);
  give_item(bench, again, 1);
  CoreLock lock(bench.core);
  EXPECT_TRUE(stream->take(item));
}

/// The reply of a call that left, with `values` announced and one fewer in it.
void give_cut_off_reply(Bench& bench, const SentFrame& call, std::uint16_t values, wire::FrameKind kind) {
  std::vector<std::byte> memory;
  FrameWriter out(memory);
  CallHead head;
  std::memcpy(&head, call.payload.data(), sizeof head);
  out.put(ReplyHead{.call_id = head.call_id, .run_us = 10, .values = values});
  for (int i = 1; i < values; ++i) out.put(ValueHead{});
  net::FrameHeader header;
  header.kind = std::uint8_t(kind);
  header.source = call.header.destination;
  bench.deliver(call.ring, header, memory);
}

TEST(BadFrame, RFM1_AReplyThatIsCutOffFailsWhatItDidNotBring) {
  Bench bench;
  const auto result = bench.submit();
  bench.grant(kWorker);
  give_cut_off_reply(bench, bench.take_kind(wire::FrameKind::kCall).at(0), 1, wire::FrameKind::kReply);
  EXPECT_EQ(Bench::code_of(result), ErrorCode::kSerialization) << "it was ready, with an empty value";
  const auto next = bench.submit();
  const auto calls = bench.take_kind(wire::FrameKind::kCall);
  ASSERT_EQ(calls.size(), 1u) << "the lease goes on";
  bench.reply(calls[0]);
  EXPECT_EQ(next->state(), detail::ObjectBase::kReady);
}

TEST(BadFrame, RFM1_AnItemThatIsCutOffEndsItsStream) {
  Bench bench;
  const detail::StreamPtr reader = submit_stream(bench);
  auto* const stream = static_cast<StreamState*>(reader.get());
  const SentFrame call = bench.take_kind(wire::FrameKind::kCall).at(0);
  give_item(bench, call, 0);
  give_cut_off_reply(bench, call, 1, wire::FrameKind::kStreamItem);
  detail::ObjectPtr item;
  {
    CoreLock lock(bench.core);
    ASSERT_TRUE(stream->take(item));
    EXPECT_EQ(item->state(), detail::ObjectBase::kReady);
    ASSERT_TRUE(stream->take(item)) << "its reader waited for ever";
  }
  EXPECT_EQ(Bench::code_of(item), ErrorCode::kSerialization);
  EXPECT_EQ(bench.take(Control::kCancel).header.arg1, call.header.arg0) << "nobody reads on: the producer is told";
}

TEST(BadFrame, RFM1_AnItemOfAnEarlierAttemptEndsNothing) {
  Bench bench;
  const detail::StreamPtr reader = submit_stream(bench);
  auto* const stream = static_cast<StreamState*>(reader.get());
  SentFrame call = bench.take_kind(wire::FrameKind::kCall).at(0);
  call.header.destination = {1, 99};  // from another process than it was sent to
  give_cut_off_reply(bench, call, 1, wire::FrameKind::kStreamItem);
  detail::ObjectPtr item;
  CoreLock lock(bench.core);
  EXPECT_FALSE(stream->take(item));
  EXPECT_EQ(bench.count(Control::kCancel), 0u);
}

TEST(ShortTasks, TS2_AReplyOfWhatDidNotRunMeasuresNothing) {
  Bench bench;
  const auto first = bench.submit();
  bench.grant(kWorker);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), nullptr, 10);
  const auto second = bench.submit();
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), make_error<CancelledError>("not begun"), kNotRun);
  const auto third = bench.submit(), fourth = bench.submit();
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 2u) << "they are short ones, as before";
}

/// The user's predicate is user code: it may put, and it is not asked under the lock. (A.10, TS-6)
TEST(RetryPredicate, IsAskedWithoutTheLock) {
  Bench bench;
  set_process_runtime(&bench.core);
  static int asked;
  asked = 0;
  TaskOptions options;
  options.retry.max_retries = 1;
  options.retry.retry_error = [](const TaskError&) {
    ++asked;
    EXPECT_FALSE(current_core()->lock_held());
    CoreLock lock(*current_core());  // as put does: on f0736ec this never returned
    return true;
  };
  const auto result = bench.submit(&options);
  bench.grant(kWorker);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), task_error());
  EXPECT_TRUE(Bench::pending(result));
  bench.advance(1s);
  EXPECT_EQ(asked, 1);
  bench.advance(1s);  // its pause before the next attempt
  bench.grant(kWorker);
  const auto again = bench.take_kind(wire::FrameKind::kCall);
  ASSERT_EQ(again.size(), 1u);
  bench.reply(again[0], task_error());
  EXPECT_EQ(Bench::code_of(result), ErrorCode::kTask) << "no retries are left";
  bench.advance(1s);
  EXPECT_EQ(asked, 1);
  set_process_runtime(nullptr);
}

TEST(RetryPredicate, ACallThatIsCancelledMeanwhileIsNotTriedAgain) {
  Bench bench;
  TaskOptions options;
  options.retry.max_retries = 1;
  options.retry.retry_error = [](const TaskError&) { return true; };
  const auto result = bench.submit(&options);
  bench.grant(kWorker);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), task_error());
  {
    CoreLock lock(bench.core);
    bench.core.caller().cancel_object(entry_of(result), {});
  }
  EXPECT_EQ(Bench::code_of(result), ErrorCode::kCancelled);
  bench.advance(20s);
  EXPECT_EQ(bench.core.calls().open(), 0u);
}

/// A stopped worker answers nothing: the caller's clock ends the task, and the worker in the end. (A.7, TS-5)
TEST(TaskTimeout, EndsATaskWhoseWorkerIsSilent) {
  Bench bench;
  TaskOptions options;
  options.timeout = 1s;
  const auto result = bench.submit(&options);
  bench.advance(5s);
  EXPECT_TRUE(Bench::pending(result)) << "it counts from the first sending";
  bench.grant(kWorker);
  bench.advance(999ms);
  EXPECT_TRUE(Bench::pending(result));
  bench.advance(1ms);
  EXPECT_EQ(Bench::code_of(result), ErrorCode::kDeadlineExceeded);
  const SentFrame cancel = bench.take(Control::kCancel);
  EXPECT_EQ(cancel.header.destination, kWorker);
  EXPECT_TRUE(cancel.header.arg2 & kCancelDeadline);
  EXPECT_EQ(bench.count(wire::Method::kKillProcess), 0u);
  bench.advance(5s);
  EXPECT_EQ(bench.take(wire::Method::kKillProcess).decode<wire::KillProcess>().process, kWorker);
  wire::ProcessDied died;
  died.process = kWorker;
  died.begun = {{Bench::kSelf, 1}};
  bench.notice(wire::Method::kProcessDied, died);
  EXPECT_EQ(bench.core.calls().open(), 0u);
  EXPECT_EQ(bench.take(wire::Method::kLeaseReturned).decode<wire::LeaseReturned>().lease_id, bench.last_lease);
}

TEST(TaskTimeout, EndsATaskThatWaitsForALeaseAgain) {
  Bench bench;
  TaskOptions options;
  options.timeout = 1s;
  const auto result = bench.submit(&options);
  bench.grant(kWorker);
  wire::ProcessDied died;
  died.process = kWorker;
  died.begun = {{Bench::kSelf, 1}};
  bench.notice(wire::Method::kProcessDied, died);
  bench.advance(500ms);
  EXPECT_EQ(bench.count(wire::Method::kLeaseWanted), 1u) << "it is tried again, and nobody grants a lease";
  EXPECT_TRUE(Bench::pending(result));
  bench.advance(500ms);
  EXPECT_EQ(Bench::code_of(result), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(bench.core.calls().open(), 0u);
}

/// Calls of several groups begin out of their order: one that had not begun is known not to have been executed. (A.18,
/// BG-1)
TEST(ActorDeath, WhatHadNotBegunIsSaidSo) {
  const ProcessId home{1, 7};
  const ActorId actor{{1, 9}, 1};
  Bench bench;
  bench.attached_peers.insert(home);
  detail::HandlePtr handle;
  {
    CoreLock lock(bench.core);
    bool wait = false;
    handle = bench.core.actors().handle({actor, "", "Grouped", 0, -1, 0, {}}, 0, wait);
  }
  std::vector<detail::ObjectPtr> results;
  for (int i = 0; i < 3; ++i) results.push_back(bench.call(handle));
  wire::ActorLocation location;
  location.actor = actor;
  location.state = wire::ActorState::kAlive;
  location.process = home;
  bench.respond(bench.take(wire::Method::kResolveActor), location);
  ASSERT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 3u);
  net::SharedBegun begun;
  begun.note(1);
  begun.note(3);
  bench.begun_by_peer = begun.snapshot();
  wire::ProcessDied died;
  died.process = home;
  bench.notice(wire::Method::kProcessDied, died);
  location.state = wire::ActorState::kDead;
  bench.notice(wire::Method::kActorMoved, location);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Bench::code_of(results[i]), ErrorCode::kActorDied);
    EXPECT_EQ(entry_of(results[i]).error->record().outcome, i == 1 ? Outcome::kNotExecuted : Outcome::kUnknown) << i;
  }
}

/// The same of a process on another node, whose daemon tells. (A.18)
TEST(ActorDeath, WhatHadNotBegunOnAnotherNodeIsSaidSo) {
  const ProcessId home{2, 7};
  const ActorId actor{{1, 9}, 1};
  Bench bench;
  detail::HandlePtr handle;
  {
    CoreLock lock(bench.core);
    bool wait = false;
    handle = bench.core.actors().handle({actor, "", "Grouped", 0, -1, 0, {}}, 0, wait);
  }
  std::vector<detail::ObjectPtr> results;
  for (int i = 0; i < 4; ++i) results.push_back(bench.call(handle));
  wire::ActorLocation location;
  location.actor = actor;
  location.state = wire::ActorState::kAlive;
  location.process = home;
  bench.respond(bench.take(wire::Method::kResolveActor), location);
  ASSERT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 4u);
  wire::ProcessDied died;
  died.process = home;
  died.begun = {{Bench::kSelf, 1}, {{3, 1}, 4}};
  died.begun_beyond = {{{3, 1}, 2}, {Bench::kSelf, 3}};
  bench.notice(wire::Method::kProcessDied, died);
  location.state = wire::ActorState::kDead;
  bench.notice(wire::Method::kActorMoved, location);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(Bench::code_of(results[i]), ErrorCode::kActorDied);
    const bool began = i == 0 || i == 2;
    EXPECT_EQ(entry_of(results[i]).error->record().outcome, began ? Outcome::kUnknown : Outcome::kNotExecuted) << i;
  }
}

/// Found by the simulator (CI-10): the first attempt had begun, the second waited for the actor's next life, which did
/// not come, and the call was said not to have been executed.
TEST(ActorDeath, CAC5_ACallOfWhichAnEarlierAttemptBeganMayHaveBeenExecuted) {
  const ProcessId home{1, 7};
  const ActorId actor{{1, 9}, 1};
  Bench bench;
  bench.attached_peers.insert(home);
  detail::HandlePtr handle;
  {
    CoreLock lock(bench.core);
    bool wait = false;
    handle = bench.core.actors().handle({actor, "", "Grouped", 1, -1, 0, {}}, 0, wait);
  }
  CallOptions options;
  options.max_retries = 1;
  const detail::ObjectPtr result = bench.call(handle, &options);
  wire::ActorLocation location;
  location.actor = actor;
  location.state = wire::ActorState::kAlive;
  location.process = home;
  bench.respond(bench.take(wire::Method::kResolveActor), location);
  ASSERT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 1u);
  net::SharedBegun begun;
  begun.note(1);
  bench.begun_by_peer = begun.snapshot();
  wire::ProcessDied died;
  died.process = home;
  bench.notice(wire::Method::kProcessDied, died);
  location.state = wire::ActorState::kRestarting;
  bench.notice(wire::Method::kActorMoved, location);
  EXPECT_TRUE(Bench::pending(result)) << "it is to be tried again";
  location.state = wire::ActorState::kDead;
  bench.notice(wire::Method::kActorMoved, location);
  ASSERT_EQ(Bench::code_of(result), ErrorCode::kActorDied);
  EXPECT_EQ(entry_of(result).error->record().outcome, Outcome::kUnknown);
}

wire::NamedActorReply named(ActorId actor, const std::string& class_name) {
  return {wire::HandleDesc{actor, "x", class_name, 0, -1, 0, {}}};
}

/// The head counts who asks for a name from its answer on: the drop of the handle reaches it. (A.22, CAC-4)
TEST(NamedActor, AHandleThatWasFoundIsGivenBack) {
  const ActorId actor{{1, 9}, 1};
  Bench bench;
  {
    CoreLock lock(bench.core);
    bench.core.caller().lookup().ask({"x", ""}, "Counter",
                                 [](Result<detail::HandlePtr> found) { EXPECT_TRUE(found.ok()); });
  }
  bench.respond(bench.take(wire::Method::kGetNamedActor), named(actor, "Counter"));  // nobody keeps it
  bench.advance(10ms);
  std::vector<ActorId> dropped;
  while (bench.count(wire::Method::kHandleCounts) > 0) {
    const auto counts = bench.take(wire::Method::kHandleCounts).decode<wire::HandleCounts>();
    dropped = counts.dropped;
  }
  EXPECT_EQ(dropped, std::vector{actor}) << "at f0736ec: the drop cancelled out what the head counts already";
}

/// A drop that overtakes the answer would make the head forget the handle that it is just giving. (CAC-4)
TEST(NamedActor, NoDropIsToldWhileAnAnswerIsAwaited) {
  const ActorId actor{{1, 9}, 1};
  Bench bench;
  detail::HandlePtr first, second;
  {
    CoreLock lock(bench.core);
    bool wait = false;
    first = bench.core.actors().handle({actor, "x", "Counter", 0, -1, 0, {}}, 0, wait);
  }
  bench.advance(10ms);
  bench.respond(bench.take(wire::Method::kHandleCounts), wire::Empty{});
  {
    CoreLock lock(bench.core);
    bench.core.caller().lookup().ask({"x", ""}, "Counter",
                                 [&](Result<detail::HandlePtr> found) { second = *std::move(found); });
  }
  first = {};
  bench.advance(10ms);
  EXPECT_EQ(bench.count(wire::Method::kHandleCounts), 0u);
  bench.respond(bench.take(wire::Method::kGetNamedActor), named(actor, "Counter"));
  bench.advance(10ms);
  while (bench.count(wire::Method::kHandleCounts) > 0)
    EXPECT_TRUE(bench.take(wire::Method::kHandleCounts).decode<wire::HandleCounts>().dropped.empty());
  second = {};
  bench.advance(10ms);
  EXPECT_EQ(bench.take(wire::Method::kHandleCounts).decode<wire::HandleCounts>().dropped, std::vector{actor});
}

ErrorRecord lost_record() {
  ErrorRecord record;
  record.code = ErrorCode::kObjectLost;
  record.message = "no copy is left";
  return record;
}

/// A value's memory cannot be brought here: the callback is told, on f0736ec it decoded a null pointer. (A.4)
TEST(OnReady, TellsThatTheMemoryIsLost) {
  Bench bench;
  detail::ObjectPtr object;
  {
    CoreLock lock(bench.core);
    ObjectEntry* entry = bench.core.objects().make_owned();
    bench.core.objects().complete(*entry, bench.remote_value());
    object = detail::ObjectPtr::adopt(entry);
  }
  std::vector<ErrorCode> told;
  for (int i = 0; i < 2; ++i)
    on_ready(detail::make_ref<std::string>(object), [&](Result<std::string>&& result) {
      EXPECT_FALSE(bench.core.lock_held());
      told.push_back(result.ok() ? ErrorCode{} : result.error().code());
    });
  bench.advance(0s);
  EXPECT_TRUE(told.empty()) << "the fetch is under way, and holds up no thread";
  const SentFrame fetch = bench.take(wire::Method::kStoreFetch);
  EXPECT_EQ(bench.count(wire::Method::kStoreFetch), 0u) << "one fetch for both";
  bench.respond(fetch, lost_record(), true);
  bench.advance(0s);
  EXPECT_EQ(told, std::vector(2, ErrorCode::kObjectLost));
}

/// A read of memory of another node is a wait like any other: it can be cancelled, and gives CPUs back. (A.8)
TEST(Fetch, ATaskThatFetchesCanBeCancelledAndLendsItsCpus) {
  const auto endpoint = net::Endpoint::create({.self = Bench::kSelf}).value();
  Bench bench(wire::Role::kWorker, endpoint.get());
  const detail::Value value = bench.remote_value();
  CallContext context;
  context.runtime = &bench.core;
  context.is_task = true;
  context.lease = 6;
  auto thrown = std::async(std::launch::async, [&] {
    set_current_context(&context);
    try {
      (void)bench.core.owner().buffers().fetch_all(value, exec::kNever);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode{};
  });
  bool lent = false;
  for (const auto end = std::chrono::steady_clock::now() + 20s; !lent && std::chrono::steady_clock::now() < end;) {
    std::this_thread::yield();
    CoreLock lock(bench.core);
    lent = bench.count(wire::Method::kWorkerBlocked) == 1;
  }
  EXPECT_TRUE(lent);
  {
    CoreLock lock(bench.core);
    interrupt(context, make_error<CancelledError>("the task was cancelled"));
  }
  EXPECT_EQ(thrown.wait_for(20s), std::future_status::ready);
  bench.respond(bench.take(wire::Method::kStoreFetch), lost_record(), true);  // also one that was not cancelled ends
  EXPECT_EQ(thrown.get(), ErrorCode::kCancelled);
  EXPECT_EQ(bench.count(wire::Method::kWorkerBlocked), 2u) << "it goes on";
}

/// A light actor is killed to be restarted, with a call in flight: its process does not die, the last answer tells all.
/// (A.12)
TEST(LightRestart, CallersGoOnWithTheLastAnswer) {
  const ProcessId home{1, 7};
  const ActorId actor{{1, 9}, 1};
  Bench bench;
  bench.attached_peers.insert(home);
  detail::HandlePtr handle;
  {
    CoreLock lock(bench.core);
    bool wait = false;
    wire::HandleDesc desc;
    desc.actor = actor;
    desc.class_name = "Light";
    desc.flags = wire::kHandleLight;
    handle = bench.core.actors().handle(desc, 0, wait);
  }
  const auto in_flight = bench.call(handle), other = bench.call(handle);
  wire::ActorLocation location;
  location.actor = actor;
  location.state = wire::ActorState::kAlive;
  location.process = home;
  bench.respond(bench.take(wire::Method::kResolveActor), location);
  const auto sent = bench.take_kind(wire::FrameKind::kCall);
  ASSERT_EQ(sent.size(), 2u);
  location.state = wire::ActorState::kRestarting;
  bench.notice(wire::Method::kActorMoved, location);
  location.state = wire::ActorState::kAlive;
  bench.notice(wire::Method::kActorMoved, location);
  const auto later = bench.call(handle);
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 0u) << "what came before is not answered yet (AC-1)";
  bench.reply(sent[0]);
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 0u);
  ErrorRecord ended;
  ended.code = ErrorCode::kActorDied;
  bench.reply(sent[1], Error::make(ended));
  EXPECT_EQ(Bench::code_of(other), ErrorCode::kActorDied);
  const auto again = bench.take_kind(wire::FrameKind::kCall);
  ASSERT_EQ(again.size(), 1u) << "on f0736ec it waited 5 s for the death of its process";
  bench.reply(again[0]);
  EXPECT_FALSE(Bench::pending(later));
  EXPECT_EQ(Bench::code_of(in_flight), ErrorCode{});
}

/// Calls to a light actor of which the host says that it ended before it began them.
class NotBegun : public ::testing::Test {
 protected:
  NotBegun() {
    bench_.attached_peers.insert(kHome);
    {
      CoreLock lock(bench_.core);
      bool wait = false;
      wire::HandleDesc desc;
      desc.actor = location_.actor = {{1, 9}, 1};
      desc.class_name = "Light";
      desc.flags = wire::kHandleLight;
      handle_ = bench_.core.actors().handle(desc, 0, wait);
    }
    for (auto& result : results_) result = bench_.call(handle_);
    location_.process = kHome;
    location_.state = wire::ActorState::kAlive;
    bench_.respond(bench_.take(wire::Method::kResolveActor), location_);
    sent_ = bench_.take_kind(wire::FrameKind::kCall);
    EXPECT_EQ(sent_.size(), 3u);
  }
  void moved(wire::ActorState state) {
    location_.state = state;
    bench_.notice(wire::Method::kActorMoved, location_);
  }
  void ended(const SentFrame& call, bool not_begun) {
    ErrorRecord record;
    record.code = ErrorCode::kActorDied;
    record.outcome = not_begun ? Outcome::kNotExecuted : Outcome::kUnknown;
    bench_.reply(call, Error::make(record), 0, false, not_begun);
  }
  std::vector<std::uint64_t> calls_sent() {
    std::vector<std::uint64_t> ids;
    again_ = bench_.take_kind(wire::FrameKind::kCall);
    for (const SentFrame& frame : again_) ids.push_back(frame.header.arg0);
    return ids;
  }
  std::vector<std::uint64_t> first_sent(std::initializer_list<std::size_t> which) const {
    std::vector<std::uint64_t> ids;
    for (std::size_t i : which) ids.push_back(sent_[i].header.arg0);
    return ids;
  }
  static constexpr ProcessId kHome{1, 7};
  Bench bench_;
  detail::HandlePtr handle_;
  wire::ActorLocation location_;
  std::array<detail::ObjectPtr, 3> results_;
  std::vector<SentFrame> sent_, again_;
};

TEST_F(NotBegun, CAC6_WhatWasNotBegunIsTheNextLifesInItsOrder) {
  moved(wire::ActorState::kRestarting);
  ended(sent_[0], false);
  ended(sent_[1], true);
  ended(sent_[2], true);
  EXPECT_EQ(Bench::code_of(results_[0]), ErrorCode::kActorDied) << "it may have run";
  EXPECT_TRUE(Bench::pending(results_[1]) && Bench::pending(results_[2]));
  const auto later = bench_.call(handle_);
  moved(wire::ActorState::kAlive);
  auto ids = calls_sent();
  ASSERT_EQ(ids.size(), 3u);
  ids.pop_back();
  EXPECT_EQ(ids, first_sent({1, 2}));
  for (const SentFrame& frame : again_) bench_.reply(frame);
  for (const auto& result : {results_[1], results_[2], later}) EXPECT_EQ(Bench::code_of(result), ErrorCode{});
}

TEST_F(NotBegun, CAC5_TheHostMayAnswerBeforeTheHeadSpeaks) {
  for (std::size_t i : {0, 1, 2}) ended(sent_[i], true);
  EXPECT_TRUE(Bench::pending(results_[0]));
  EXPECT_TRUE(calls_sent().empty()) << "nobody is there to take them";
  moved(wire::ActorState::kRestarting);
  moved(wire::ActorState::kAlive);
  EXPECT_EQ(calls_sent(), first_sent({0, 1, 2}));
}

TEST_F(NotBegun, CAC5_WithoutANextLifeTheyWereNotExecuted) {
  ended(sent_[0], true);
  ended(sent_[1], true);
  moved(wire::ActorState::kDead);
  ended(sent_[2], true);
  for (const auto& result : results_) {
    EXPECT_EQ(Bench::code_of(result), ErrorCode::kActorDied);
    EXPECT_EQ(static_cast<const ObjectEntry&>(*result).error->record().outcome, Outcome::kNotExecuted);
  }
  EXPECT_TRUE(calls_sent().empty());
}

TEST_F(NotBegun, CAC5_OneThatIsCancelledMeanwhileIsNotSentAgain) {
  ended(sent_[0], true);
  {
    CoreLock lock(bench_.core);
    bench_.core.caller().cancel_object(entry_of(results_[0]), {});
  }
  EXPECT_EQ(Bench::code_of(results_[0]), ErrorCode::kCancelled);
  ended(sent_[1], true);
  ended(sent_[2], true);
  moved(wire::ActorState::kRestarting);
  moved(wire::ActorState::kAlive);
  EXPECT_EQ(calls_sent(), first_sent({1, 2}));
}

/// A killed method may compute on for hours in a host that lives: nobody waits for its answer that long.
TEST_F(NotBegun, CAC11_WhatAKilledActorStillRunsFailsAfterAGrace) {
  ErrorRecord killed;
  killed.code = ErrorCode::kActorDied;
  killed.message = "killed by kill()";
  location_.error = killed;
  moved(wire::ActorState::kDead);
  ended(sent_[2], true);
  EXPECT_EQ(Bench::code_of(results_[2]), ErrorCode::kActorDied);
  bench_.advance(4s);
  EXPECT_TRUE(Bench::pending(results_[0]) && Bench::pending(results_[1])) << "its answers are about to come";
  bench_.reply(sent_[1]);
  EXPECT_EQ(Bench::code_of(results_[1]), ErrorCode{}) << "it had ended before";
  bench_.advance(1s);
  ASSERT_EQ(Bench::code_of(results_[0]), ErrorCode::kActorDied);
  EXPECT_EQ(entry_of(results_[0]).error->record().outcome, Outcome::kUnknown);
  bench_.reply(sent_[0]);
  EXPECT_EQ(bench_.core.calls().open(), 0u);
}

/// A chain of calls, each with the result of the one before: the first fails, and with it all. Deeper than any stack.
class Chain {
 public:
  static constexpr int kLinks = 200'000;
  template <class Submit> Chain(Bench& bench, detail::ObjectPtr first, Submit&& submit) : last_(std::move(first)) {
    for (int i = 0; i < kLinks; ++i) {
      detail::OutgoingCall call;
      call.function = &function;
      call.dependencies.push_back(last_);
      CoreLock lock(bench.core);
      submit(std::move(call), &last_);
    }
  }
  const detail::ObjectPtr& last() const { return last_; }

 private:
  static inline detail::FunctionNode function{detail::FunctionKind::kFunction, nullptr, "[with auto F = link]"};
  detail::ObjectPtr last_;
};

TEST(LongChain, CAL1_OfTasksFailsAsAWhole) {
  Bench bench;
  const Chain chain(bench, bench.submit(), [&](detail::OutgoingCall call, detail::ObjectPtr* result) {
    bench.core.tasks().submit(std::move(call), nullptr, result, nullptr);
  });
  bench.grant(kWorker);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), task_error());
  EXPECT_EQ(Bench::code_of(chain.last()), ErrorCode::kTask);
  EXPECT_EQ(bench.core.calls().open(), 0u);
}

TEST_F(NotBegun, CAL1_ALongChainOfMethodsFailsAsAWhole) {
  const Chain chain(bench_, results_[0], [&](detail::OutgoingCall call, detail::ObjectPtr* result) {
    client_of(handle_).submit(std::move(call), CallKind::kActorCall, nullptr, result, nullptr);
  });
  bench_.reply(sent_[0], task_error());
  EXPECT_EQ(Bench::code_of(chain.last()), ErrorCode::kTask);
  EXPECT_EQ(bench_.core.calls().open(), 2u);
}

/// A node counts a lease as granted before it sends it: between the two it may die, and then nobody believed that
/// anything was wanted still. (TS-10)
TEST(LostNode, TS10_ALeaseThatDiedOnItsWayIsAskedForAgain) {
  Bench bench;
  const auto result = bench.submit();
  const auto wanted = bench.take(wire::Method::kLeaseWanted).decode<wire::LeaseWanted>();
  EXPECT_EQ(wanted.wanted, 1u);
  bench.notice(wire::Method::kNodeDied, wire::NodeDied{2, "b", "killed"});
  ASSERT_EQ(bench.count(wire::Method::kLeaseWanted), 1u);
  const auto again = bench.take(wire::Method::kLeaseWanted).decode<wire::LeaseWanted>();
  EXPECT_EQ(again.request_id, wanted.request_id);
  EXPECT_EQ(again.wanted, 1u);
  bench.notice(wire::Method::kLeaseGranted, wire::LeaseGranted{wanted.request_id, 7, {3, 5}, 100, {}, false});
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0));
  EXPECT_FALSE(Bench::pending(result));
  bench.notice(wire::Method::kNodeDied, wire::NodeDied{4, "d", "killed"});
  EXPECT_EQ(bench.count(wire::Method::kLeaseWanted), 0u) << "nothing is wanted";
}

/// The task is another worker's by now: were it taken from that one's lease, it would run twice. (TS-9)
TEST(Recalls, TS9_OfWhoDoesNotHaveTheTaskAreNone) {
  const ProcessId next{3, 6};
  Bench bench;
  const auto result = bench.submit();
  bench.grant(kWorker);
  const SentFrame first = bench.take_kind(wire::FrameKind::kCall).at(0);
  wire::ProcessDied died;
  died.process = kWorker;
  bench.notice(wire::Method::kProcessDied, died);
  bench.grant(next);
  const SentFrame second = bench.take_kind(wire::FrameKind::kCall).at(0);
  ASSERT_EQ(second.header.destination, next);
  CallHead head;
  std::memcpy(&head, first.payload.data(), sizeof head);
  const auto recall = [&](ProcessId who) {
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kControl);
    header.arg0 = std::uint64_t(Control::kRecalled);
    header.source = who;
    const auto id = std::as_bytes(std::span(&head.call_id, 1));
    bench.deliver(Bench::kDaemon, header, {id.begin(), id.end()});
  };
  recall(kWorker);
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 0u);
  recall(next);
  ASSERT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 1u) << "its own recall counts: it gets the task anew";
  EXPECT_TRUE(Bench::pending(result));
}

std::uint64_t id_of(const SentFrame& call) {
  CallHead head;
  std::memcpy(&head, call.payload.data(), sizeof head);
  return head.call_id;
}

std::vector<std::uint64_t> ids_of(const std::vector<SentFrame>& calls) {
  std::vector<std::uint64_t> ids;
  for (const SentFrame& call : calls) ids.push_back(id_of(call));
  return ids;
}

/// The oldest first, as it was, whatever frames it comes back in: else the first of a burst would be the last to run.
TEST(Recalls, WhatComesBackKeepsItsOrder) {
  Bench bench;
  bench.submit();
  bench.grant(kWorker);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), nullptr, 10);  // short: several may be on their way
  for (int i = 0; i < 6; ++i) bench.submit();
  const std::vector<SentFrame> sent = bench.take_kind(wire::FrameKind::kCall);
  ASSERT_EQ(sent.size(), 6u);
  const std::vector<std::uint64_t> ids = ids_of(sent);
  const auto recall = [&](const std::vector<std::uint64_t>& which) {
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kControl);
    header.arg0 = std::uint64_t(Control::kRecalled);
    header.source = kWorker;
    const auto bytes = std::as_bytes(std::span(which));
    bench.deliver(Bench::kDaemon, header, {bytes.begin(), bytes.end()});
  };
  recall({ids[1], ids[2], ids[1]});  // named twice is given back once
  recall({ids[3]});
  recall({ids[4], ids[5]});
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 0u) << "none before the running one ends";
  bench.reply(sent[0], nullptr, 10);
  EXPECT_EQ(ids_of(bench.take_kind(wire::FrameKind::kCall)), std::vector(ids.begin() + 1, ids.end()));
}

/// TS-3: the same of what a dead worker had not begun, where another lease has room for all of it.
TEST(Recalls, WhatADeadWorkerHadNotBegunKeepsItsOrder) {
  const ProcessId other{3, 6};
  Bench bench;
  bench.submit(), bench.submit();
  bench.grant(kWorker), bench.grant(other);
  for (const SentFrame& call : bench.take_kind(wire::FrameKind::kCall)) bench.reply(call, nullptr, 10);
  for (int i = 0; i < 10; ++i) bench.submit();
  std::vector<SentFrame> lost;
  for (SentFrame& call : bench.take_kind(wire::FrameKind::kCall))
    if (call.header.destination == kWorker) lost.push_back(std::move(call));
  ASSERT_GE(lost.size(), 3u);
  wire::ProcessDied died;
  died.process = kWorker;
  died.begun = {{Bench::kSelf, lost[0].header.token}};
  bench.notice(wire::Method::kProcessDied, died);
  const std::vector<std::uint64_t> ids = ids_of(lost);
  EXPECT_EQ(ids_of(bench.take_kind(wire::FrameKind::kCall)), std::vector(ids.begin() + 1, ids.end()));
}

/// Others may have its CPUs by now. (H.5, TS-7)
TEST(LentCpus, ALeaseThatLentThemGetsNoTaskBeforeItHasThemBack) {
  Bench bench;
  const auto first = bench.submit();
  bench.grant(kWorker);
  const auto second = bench.submit();
  bench.take(wire::Method::kLeaseWanted);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), nullptr, 5000, true);
  EXPECT_FALSE(Bench::pending(first));
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 0u) << "on f0736ec it ran without a CPU of its own";
  const SentFrame renew = bench.take(wire::Method::kLeaseRenew);
  EXPECT_EQ(renew.decode<wire::LeaseRenew>().lease_id, bench.last_lease);
  bench.respond(renew, wire::LeaseRenewed{0});
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 0u) << "others have its CPUs";
  EXPECT_EQ(bench.count(wire::Method::kLeaseReturned), 0u) << "its daemon has ended it";
  bench.notice(wire::Method::kLeaseGranted, wire::LeaseGranted{1, 99, kWorker, 100, {}, false});
  const auto sent = bench.take_kind(wire::FrameKind::kCall);
  ASSERT_EQ(sent.size(), 1u);
  bench.reply(sent[0]);
  EXPECT_FALSE(Bench::pending(second));
}

/// A long queue keeps nobody out: past its term the lease is renewed, which its daemon refuses when others wait. (TS-8)
TEST(LeaseTerm, ALeaseIsRenewedWhenItHasLastedIt) {
  Bench bench;
  std::vector<decltype(bench.submit())> results{bench.submit()};
  bench.grant(kWorker);
  for (int i = 0; i < 3; ++i) results.push_back(bench.submit());
  bench.take(wire::Method::kLeaseWanted);
  bench.advance(100ms);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), nullptr, 5000);
  EXPECT_EQ(bench.count(wire::Method::kLeaseRenew), 0u);
  bench.advance(100ms);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), nullptr, 5000);
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 0u);
  bench.respond(bench.take(wire::Method::kLeaseRenew), wire::LeaseRenewed{99});
  bench.advance(150ms);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), nullptr, 5000);
  EXPECT_EQ(bench.count(wire::Method::kLeaseRenew), 0u) << "it lasts anew";
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), nullptr, 5000);
  for (const auto& result : results) EXPECT_FALSE(Bench::pending(result));
}

/// A construction that is given a ref, which nobody else has.
detail::OutgoingCall with_a_ref(Bench& bench) {
  static detail::FunctionNode constructor{detail::FunctionKind::kConstructor, nullptr, "[with A = Keepsake]"};
  detail::OutgoingCall construction;
  construction.function = &constructor;
  CoreLock lock(bench.core);
  ObjectEntry* inside = bench.core.objects().make_owned();
  bench.core.objects().complete(*inside, {});
  construction.arguments.attachments = std::make_unique<detail::Attachments>();
  construction.arguments.attachments->objects.push_back(detail::ObjectPtr::adopt(inside));
  return construction;
}

/// Who drops the handle at once, as a task does that returns it, must not take the constructor's arguments with it.
/// (A.1, KP-4)
TEST(Creation, WhatItNamesIsHeldUntilTheActorWasConstructed) {
  Bench bench;
  ActorOptions options;
  options.max_restarts = 1;
  detail::HandlePtr handle = bench.core.caller().creation().create(with_a_ref(bench), &options, "Keepsake");
  const SentFrame creation = bench.take(wire::Method::kCreateActor);
  const auto spec = creation.decode<wire::ActorSpec>();
  EXPECT_EQ(spec.refs.size(), 1u) << "for the day on which this process is gone";
  bench.respond(creation, wire::CreateActorReply{wire::handle_of(spec), false});
  handle = {};
  bench.advance(1s);
  EXPECT_EQ(bench.core.objects().live(), 1u);
  bench.notice(wire::Method::kArgumentsTaken, wire::ResolveActor{spec.id});
  EXPECT_EQ(bench.core.objects().live(), 0u);
}

/// Whoever has the handle of an actor that never comes back does not hold what its constructor was given.
TEST(Creation, WhatItNamesIsLetGoOfOnceTheActorWasConstructedWhoeverHasItsHandle) {
  Bench bench;
  const ActorOptions options;
  const detail::HandlePtr handle = bench.core.caller().creation().create(with_a_ref(bench), &options, "Keepsake");
  const SentFrame creation = bench.take(wire::Method::kCreateActor);
  const auto spec = creation.decode<wire::ActorSpec>();
  bench.respond(creation, wire::CreateActorReply{wire::handle_of(spec), false});
  bench.notice(wire::Method::kArgumentsTaken, wire::ResolveActor{spec.id});
  EXPECT_EQ(bench.core.objects().live(), 1u);
  bench.notice(wire::Method::kActorMoved, wire::ActorLocation{spec.id, wire::ActorState::kAlive, kWorker, 0, {}});
  EXPECT_EQ(bench.core.objects().live(), 0u);
}

/// An actor whose constructor's argument is not there yet, and that.
struct HeldBack {
  explicit HeldBack(Bench& bench) {
    static detail::FunctionNode constructor{detail::FunctionKind::kConstructor, nullptr, "[with A = Patient]"};
    detail::OutgoingCall construction;
    construction.function = &constructor;
    {
      CoreLock lock(bench.core);
      argument = detail::ObjectPtr::adopt(bench.core.objects().make_owned());
    }
    construction.dependencies.push_back(argument);
    const ActorOptions options;
    handle = bench.core.caller().creation().create(std::move(construction), &options, "Patient");
    id = client_of(handle).id();
    EXPECT_EQ(bench.count(wire::Method::kCreateActor), 0u);
    EXPECT_EQ(bench.take(wire::Method::kHandleCounts).decode<wire::HandleCounts>().begun, std::vector{id})
        << "others may ask for it";
  }
  detail::ObjectPtr monitor(Bench& bench) const {
    CoreLock lock(bench.core);
    return client_of(handle).monitor();
  }
  /// The argument is there, or fails.
  void settle(Bench& bench, const ErrorPtr& error = nullptr) const {
    {
      CoreLock lock(bench.core);
      if (error) bench.core.objects().fail(entry_of(argument), error);
      else bench.core.objects().complete(entry_of(argument), {});
    }
    bench.advance(1ms);
  }
  static DeathCause cause_of(const detail::ObjectPtr& monitor) {
    const detail::Value& value = entry_of(monitor).value;
    return wire::decode_message<ActorDeath>({value.body.data(), value.body.size()}).value().cause;
  }
  detail::ObjectPtr argument;
  detail::HandlePtr handle;
  ActorId id;
};

TEST(Creation, CAC10_AMonitorWaitsHereForTheArguments) {
  Bench bench;
  const HeldBack actor(bench);
  const auto monitor = actor.monitor(bench);
  EXPECT_EQ(bench.count(wire::Method::kMonitorActor), 0u) << "the head does not know it";
  actor.settle(bench);
  EXPECT_EQ(bench.count(wire::Method::kCreateActor), 1u);
  bench.respond(bench.take(wire::Method::kMonitorActor), ActorDeath{DeathCause::kCrashed, "it fell", {}, 0, 0});
  EXPECT_EQ(HeldBack::cause_of(monitor), DeathCause::kCrashed);
}

TEST(Creation, CAC10_AKillBeforeTheArgumentsAreThereIsItsDeath) {
  Bench bench;
  const HeldBack actor(bench);
  const auto monitor = actor.monitor(bench), call = bench.call(actor.handle);
  bench.core.actors().kill(actor.handle, false);
  EXPECT_EQ(bench.count(wire::Method::kKillActor), 0u);
  EXPECT_EQ(Bench::code_of(call), ErrorCode::kActorDied);
  EXPECT_EQ(HeldBack::cause_of(monitor), DeathCause::kKilled);
  EXPECT_EQ(HeldBack::cause_of(actor.monitor(bench)), DeathCause::kKilled);
  bench.advance(1s);
  EXPECT_EQ(bench.take(wire::Method::kHandleCounts).decode<wire::HandleCounts>().dropped, std::vector{actor.id});
  actor.settle(bench);
  EXPECT_EQ(bench.count(wire::Method::kCreateActor), 0u);
}

/// A worker whose creation waits for its arguments would take the actor with it. (WK-2)
TEST(Creation, WhoHoldsOneBackMayNotRetire) {
  Bench bench(wire::Role::kWorker);
  const HeldBack actor(bench);
  {
    CoreLock lock(bench.core);
    EXPECT_FALSE(bench.core.host().idle());
    bench.core.objects().complete(entry_of(actor.argument), {});
  }
  bench.advance(1s);
  EXPECT_EQ(bench.count(wire::Method::kCreateActor), 1u);
  CoreLock lock(bench.core);
  EXPECT_TRUE(bench.core.host().idle());
}

TEST(Creation, CAC10_ArgumentsThatFailAreItsDeath) {
  Bench bench;
  const HeldBack actor(bench);
  const auto monitor = actor.monitor(bench), call = bench.call(actor.handle);
  actor.settle(bench, task_error());
  EXPECT_NE(Bench::code_of(call), ErrorCode{});
  EXPECT_EQ(HeldBack::cause_of(monitor), DeathCause::kConstructorFailed);
  bench.advance(1s);
  EXPECT_EQ(bench.take(wire::Method::kHandleCounts).decode<wire::HandleCounts>().dropped, std::vector{actor.id});
}

/// A handle of an actor that the head has agreed to create.
detail::HandlePtr created_actor(Bench& bench) {
  static detail::FunctionNode constructor{detail::FunctionKind::kConstructor, nullptr, "[with A = Victim]"};
  detail::OutgoingCall construction;
  construction.function = &constructor;
  const ActorOptions options;
  detail::HandlePtr handle = bench.core.caller().creation().create(std::move(construction), &options, "Victim");
  const SentFrame creation = bench.take(wire::Method::kCreateActor);
  bench.respond(creation, wire::CreateActorReply{wire::handle_of(creation.decode<wire::ActorSpec>()), false});
  return handle;
}

/// A failure of kill() is its caller's to know, and a wait for it can be interrupted like any other.
TEST(Kill, WhoKillsInVainIsTold) {
  const auto endpoint = net::Endpoint::create({.self = Bench::kSelf}).value();
  for (const bool interrupted : {false, true}) {
    Bench bench(wire::Role::kWorker, endpoint.get());
    detail::HandlePtr handle = created_actor(bench);
    CallContext context;
    ErrorCode told{};
    std::thread killer([&] {
      set_current_context(&context);
      try {
        bench.core.actors().kill(handle, false);
      } catch (const Error& error) { told = error.code(); }
      set_current_context(nullptr);
    });
    SentFrame asked;
    while (!asked.is(wire::Method::kKillActor)) {
      std::this_thread::yield();
      CoreLock lock(bench.core);
      if (bench.count(wire::Method::kKillActor) > 0) asked = bench.take(wire::Method::kKillActor);
    }
    if (interrupted) {
      CoreLock lock(bench.core);
      interrupt(context, make_error<CancelledError>("by its caller"));
    } else {
      bench.respond(asked, NodeDiedError("the head is gone").record(), true);
    }
    killer.join();
    EXPECT_EQ(told, interrupted ? ErrorCode::kCancelled : ErrorCode::kNodeDied);
    handle = {};
  }
}

TEST(LentCpus, ALeaseThatHasThemBackGoesOnUnderANewNumber) {
  Bench bench;
  const auto first = bench.submit();
  bench.grant(kWorker);
  const auto second = bench.submit();
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), nullptr, 5000, true);
  bench.advance(1s);  // it is not idle meanwhile
  EXPECT_EQ(bench.count(wire::Method::kLeaseReturned), 0u);
  bench.respond(bench.take(wire::Method::kLeaseRenew), wire::LeaseRenewed{77});
  const auto sent = bench.take_kind(wire::FrameKind::kCall);
  ASSERT_EQ(sent.size(), 1u);
  CallHead head;
  std::memcpy(&head, sent[0].payload.data(), sizeof head);
  EXPECT_EQ(head.lease, 77u);
}

/// Nodes count their leases each for itself: the same number twice in one class.
TEST(LentCpus, LeasesOfTwoNodesWithOneNumberAreTwo) {
  const ProcessId here{1, 7};
  Bench bench;
  bench.attached_peers.insert(here);
  const auto first = bench.submit(), second = bench.submit();
  const auto wanted = bench.take(wire::Method::kLeaseWanted).decode<wire::LeaseWanted>();
  for (const ProcessId worker : {here, kWorker})
    bench.notice(wire::Method::kLeaseGranted, wire::LeaseGranted{wanted.request_id, 5, worker, 100, {}, false});
  const auto sent = bench.take_kind(wire::FrameKind::kCall);
  ASSERT_EQ(sent.size(), 2u);
  bench.reply(sent[1], nullptr, 5000, true);
  bench.respond(bench.take(wire::Method::kLeaseRenew), wire::LeaseRenewed{6});
  bench.reply(sent[0]);
  bench.advance(1s);
  std::map<ProcessId, std::uint64_t> returned;
  while (bench.count(wire::Method::kLeaseReturned) > 0) {
    const SentFrame frame = bench.take(wire::Method::kLeaseReturned);
    returned[frame.header.destination] = frame.decode<wire::LeaseReturned>().lease_id;
  }
  EXPECT_EQ(returned, (std::map<ProcessId, std::uint64_t>{{daemon_of(1), 5}, {daemon_of(2), 6}}));
}

TEST(LentCpus, AWorkerThatDiesMeanwhileHasNoLeaseToRenew) {
  Bench bench;
  const auto first = bench.submit();
  bench.grant(kWorker);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0), nullptr, 5000, true);
  const SentFrame renew = bench.take(wire::Method::kLeaseRenew);
  wire::ProcessDied died;
  died.process = kWorker;
  bench.notice(wire::Method::kProcessDied, died);
  bench.sent.clear();
  bench.respond(renew, wire::LeaseRenewed{77});
  EXPECT_EQ(bench.take(wire::Method::kLeaseReturned).decode<wire::LeaseReturned>().lease_id, 77u);
}

/// Timers end with their calls. (A.19)
TEST(Growth, TheTimerOfACallEndsWithIt) {
  Bench bench;
  TaskOptions options;
  options.timeout = 10h;
  const auto result = bench.submit(&options);
  bench.grant(kWorker);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0));
  bench.advance(1s);  // the lease is idle and given back
  CoreLock lock(bench.core);
  EXPECT_EQ(bench.core.service_queue().next_timer(), exec::kNever);
}

/// Classes without calls and leases are forgotten; a lease that is granted for one later goes back. (A.19, TS-4)
TEST(Growth, ClassesThatNobodyUsesAreForgotten) {
  Bench bench;
  std::uint64_t forgotten = 0;
  for (int i = 1; i <= 1000; ++i) {
    TaskOptions options;
    options.resources.cpus = i;
    const auto result = bench.submit(&options);
    if (i == 1) forgotten = bench.take(wire::Method::kLeaseWanted).decode<wire::LeaseWanted>().request_id;
    CoreLock lock(bench.core);
    bench.core.caller().cancel_object(entry_of(result), {});
  }
  EXPECT_LE(bench.core.tasks().leases().classes(), 128u);
  bench.sent.clear();
  bench.notice(wire::Method::kLeaseGranted, wire::LeaseGranted{forgotten, 77, kWorker, 100, {}, false});
  EXPECT_EQ(bench.take(wire::Method::kLeaseReturned).decode<wire::LeaseReturned>().lease_id, 77u);
}

/// Results of keyed tasks go after their hour, also when nobody submits another. (A.19)
TEST(Growth, KeyedResultsGoByThemselves) {
  Bench bench;
  TaskOptions options;
  options.idempotency_key = "k";
  bench.submit(&options);
  bench.grant(kWorker);
  bench.reply(bench.take_kind(wire::FrameKind::kCall).at(0));
  bench.advance(0s);  // callbacks
  bench.advance(30min);
  EXPECT_EQ(bench.core.objects().live(), 1u);
  bench.advance(31min);
  EXPECT_EQ(bench.core.objects().live(), 0u);
}

/// A second submission ran beside the first when that took longer than an hour.
TEST(Growth, KTB1_TheHourOfAKeyedTaskBeginsAtItsEnd) {
  Bench bench;
  TaskOptions options;
  options.idempotency_key = "k";
  const auto first = bench.submit(&options);
  bench.grant(kWorker);
  const auto calls = bench.take_kind(wire::FrameKind::kCall);
  ASSERT_EQ(calls.size(), 1u);
  bench.advance(90min);
  EXPECT_EQ(bench.submit(&options), first);
  bench.reply(calls[0]);
  bench.advance(0s);  // callbacks
  bench.advance(59min);
  EXPECT_EQ(bench.submit(&options), first);
  bench.advance(2min);
  EXPECT_NE(bench.submit(&options), first);
}

TEST(KeyTable, KTB1_WhatIsUnderWayDelaysNoForgetting) {
  KeyTable<int> table;
  const exec::Deadline start{};
  table.insert("under way", 1);
  table.insert("kept", 2);
  table.keep("kept", start + 1min);
  EXPECT_EQ(table.expire(start + 1h), start + 1h + 1min);
  EXPECT_TRUE(table.find("kept"));
  EXPECT_EQ(table.expire(start + 1h + 1min), exec::kNever);
  EXPECT_FALSE(table.find("kept"));
  ASSERT_TRUE(table.find("under way"));
  table.keep("under way", start + 2h);
  EXPECT_EQ(table.expire(start + 2h), start + 3h) << "its hour begins when it has been executed";
}

TEST(KeyTable, KTB1_WhatWasErasedHastensNothing) {
  KeyTable<int> table;
  const exec::Deadline start{};
  const int most = int(KeyTable<int>::kKeysMax);
  const auto keep = [&](const std::string& key) {
    table.insert(key, 1);
    table.keep(key, start);
    table.expire(start);
  };
  keep("first");
  for (int i = 0; i < 2 * most; ++i) {
    table.insert("failed", i);
    table.erase("failed");
    table.expire(start);
  }
  EXPECT_TRUE(table.find("first"));
  for (int i = 1; i < most; ++i) keep(std::to_string(i));
  EXPECT_TRUE(table.find("first")) << "so many are kept";
  keep("one more");
  EXPECT_FALSE(table.find("first"));
  EXPECT_TRUE(table.find("1"));
}

/// More arrays in one value than 16 bits count. (A.15)
TEST(ManyArrays, AllOfThemArrive) {
  constexpr std::size_t kMany = 70'000;
  Bench bench;
  CoreLock lock(bench.core);
  detail::Value value;
  value.attachments = std::make_unique<detail::Attachments>();
  auto* entry = new BufferEntry(bench.core.owner().buffers());
  entry->desc = {2, 7, 1, 100};  // of another node: nothing is pinned here
  entry->state = BufferEntry::State::kRemote;
  const detail::BufferPtr buffer(entry);
  value.attachments->buffers.assign(kMany, buffer);
  value.body = detail::Bytes(3);
  std::vector<std::byte> memory;
  FrameWriter out(memory);
  Outgoing hold(kWorker);
  ValueCodec& codec = bench.core.owner().values();
  codec.write(out, value, hold);
  EXPECT_LE(memory.size(), codec.frame_size(value));
  FrameReader in(out.view());
  const detail::Value back = codec.read(in, {kWorker, 0});
  ASSERT_FALSE(in.failed());
  EXPECT_EQ(in.left(), 0u);
  ASSERT_TRUE(back.attachments);
  EXPECT_EQ(back.attachments->buffers.size(), kMany);
  EXPECT_EQ(back.body.size(), 3u);
}

/// A result that names memory of a node that dies. (H.7)
TEST(LostResult, NamesTheTaskTheNodeAndTheReason) {
  Bench bench;
  TaskOptions options;
  options.name = "harvest";
  const auto result = bench.submit(&options);
  bench.grant(kWorker);
  const SentFrame call = bench.take_kind(wire::FrameKind::kCall).at(0);
  std::vector<std::byte> memory;
  FrameWriter out(memory);
  CallHead head;
  std::memcpy(&head, call.payload.data(), sizeof head);
  out.put(ReplyHead{.call_id = head.call_id, .values = 1});
  ValueHead value;
  value.buffers = 1;
  out.put(value);
  out.put(wire::BufferDesc{2, 7, 1, 100});
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kReply);
  header.source = call.header.destination;
  bench.deliver(call.ring, header, memory);
  ASSERT_EQ(Bench::code_of(result), ErrorCode{});
  bench.notice(wire::Method::kNodeDied, wire::NodeDied{2, "node-two", "its daemon is gone"});
  ErrorPtr lost;
  {
    CoreLock lock(bench.core);
    bench.core.owner().buffers().fetch_then(entry_of(result).value, [&](const ErrorPtr& error) { lost = error; });
  }
  ASSERT_TRUE(lost) << "its hold there is lost with the node";
  EXPECT_EQ(lost->code(), ErrorCode::kObjectLost);
  EXPECT_EQ(lost->context().node, "node-two");
  for (const char* part : {"the task 'harvest'", "node-two", "its daemon is gone", " s ago"})
    EXPECT_NE(lost->message().find(part), std::string::npos) << part << " in: " << lost->message();
}

TEST(ManyArrays, WhatDoesNotFitAMessageIsATypedError) {
  Bench bench;
  detail::Value value;
  {
    CoreLock lock(bench.core);
    value.attachments = std::make_unique<detail::Attachments>();
    auto* entry = new BufferEntry(bench.core.owner().buffers());
    entry->desc = {2, 7, 1, 100};
    entry->state = BufferEntry::State::kRemote;
    value.attachments->buffers.assign(3'000'000, detail::BufferPtr(entry));
  }
  const auto result = bench.submit(nullptr, std::move(value));
  bench.grant(kWorker);
  EXPECT_EQ(Bench::code_of(result), ErrorCode::kInvalidArgument);
  EXPECT_EQ(bench.take_kind(wire::FrameKind::kCall).size(), 0u);
}

/// Its reader waited for ever, and what it names was held for an acknowledgement that could not come.
TEST(ManyArrays, APutValueThatDoesNotFitAMessageIsAnErrorOfItsReader) {
  Bench bench;
  bench.attached_peers.insert(ProcessId{1, 9});
  detail::ObjectPtr object;
  {
    CoreLock lock(bench.core);
    detail::Value value;
    value.attachments = std::make_unique<detail::Attachments>();
    value.attachments->buffers.assign(3'000'000, bench.remote_value().large_body);
    object = detail::ObjectPtr::adopt(bench.core.objects().make_owned());
    bench.core.objects().complete(entry_of(object), std::move(value));
  }
  const ObjectId id = entry_of(object).id;
  net::FrameHeader question;
  question.kind = std::uint8_t(wire::FrameKind::kValueRequest);
  std::vector<std::byte> payload(sizeof id);
  std::memcpy(payload.data(), &id, sizeof id);
  bench.deliver(ProcessId{1, 9}, question, payload);
  const auto answers = bench.take_kind(wire::FrameKind::kValue);
  ASSERT_EQ(answers.size(), 1u);
  ReplyHead head;
  std::memcpy(&head, answers[0].payload.data(), sizeof head);
  EXPECT_EQ(head.status, ReplyStatus::kError);
  CoreLock lock(bench.core);
  EXPECT_EQ(bench.core.owner().holds().held(), 0u);
}

}  // namespace
}  // namespace troupe::worker
