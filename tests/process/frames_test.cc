// How frames find their way out of a process.
#include "tests/process/bench.h"

namespace troupe::worker {
namespace {

const ProcessId kPeer{1, 7};

/// A ring that the daemon cannot make, for whatever reason but death: frames go by the daemon. (A.13, CR-3)
TEST(FrameRouter, AFrameWhoseRingIsRefusedGoesByTheDaemon) {
  Bench bench;
  {
    CoreLock lock(bench.core);
    bench.core.frames().control(kPeer, Control::kHoldAck, 1);
    bench.core.frames().control(kPeer, Control::kHoldAck, 2);
  }
  EXPECT_EQ(bench.count(Control::kHoldAck), 0u) << "they wait for the ring";
  bench.respond(bench.take(wire::Method::kConnect), InvalidArgumentError("no descriptors are left").record(), true);
  ASSERT_EQ(bench.count(Control::kHoldAck), 2u);
  for (std::uint64_t n : {1, 2}) {
    const SentFrame frame = bench.take(Control::kHoldAck);
    EXPECT_EQ(frame.ring, Bench::kDaemon);
    EXPECT_EQ(frame.header.destination, kPeer);
    EXPECT_EQ(frame.header.arg1, n) << "CR-1";
  }
  CoreLock lock(bench.core);
  bench.core.frames().control(kPeer, Control::kHoldAck, 3);
  EXPECT_EQ(bench.take(Control::kHoldAck).ring, Bench::kDaemon);
}

std::shared_ptr<const Error> damage() { return std::make_shared<const Error>("an impossible position"); }

/// Calls between the two would never end: nothing goes through the ring, and both live. (DSP-1)
TEST(DamagedRing, DSP1_ItsPeerIsEnded) {
  for (wire::Role role : {wire::Role::kDriver, wire::Role::kWorker}) {
    Bench bench(role);
    bench.core.handler().on_broken(kPeer, damage());
    const SentFrame request = bench.take(wire::Method::kKillProcess);
    EXPECT_EQ(request.ring, Bench::kDaemon);
    EXPECT_EQ(request.decode<wire::KillProcess>().process, kPeer);
    EXPECT_EQ(request.decode<wire::KillProcess>().cause, DeathCause::kCrashed);
    bench.respond(request, wire::Empty{});
    EXPECT_EQ(bench.kills, 0);
  }
}

/// A driver is nobody's to end: then the worker goes. (DSP-1)
TEST(DamagedRing, DSP1_WithADriverTheWorkerEnds) {
  for (wire::Role role : {wire::Role::kDriver, wire::Role::kWorker}) {
    Bench bench(role);
    bench.core.handler().on_broken(kPeer, damage());
    bench.respond(bench.take(wire::Method::kKillProcess), InvalidArgumentError("it is no worker").record(), true);
    EXPECT_EQ(bench.kills, role == wire::Role::kWorker ? 1 : 0);
  }
}

TEST(DamagedRing, DSP1_WhoCannotHearItsDaemonIsOver) {
  for (wire::Role role : {wire::Role::kDriver, wire::Role::kWorker}) {
    Bench bench(role);
    detail::ObjectPtr result;
    if (role == wire::Role::kDriver) result = bench.submit();
    bench.core.handler().on_broken(Bench::kDaemon, damage());
    EXPECT_EQ(bench.kills, role == wire::Role::kWorker ? 1 : 0);
    if (!result) continue;
    EXPECT_FALSE(Bench::pending(result)) << "a driver's waits end";
  }
}

/// Who asks is told at once; of a notice the log tells, and who sent it.
TEST(FrameRouter, CR6_WhatFitsNoFrameIsRefusedAndNotTakenForSent) {
  Bench bench;
  const wire::KvEntry entry{"key", std::string(net::kPayloadMax, 'x')};
  ErrorCode told{};
  {
    CoreLock lock(bench.core);
    bench.core.requests().send<wire::Empty>(kHead, wire::Method::kKvPut, entry, [&](Result<wire::Empty> reply) {
      if (!reply.ok()) told = reply.error().code();
    });
    EXPECT_FALSE(bench.core.frames().notice(kHead, wire::Method::kKvPut, entry));
    EXPECT_FALSE(bench.core.frames().notice(kPeer, wire::Method::kKvPut, entry)) << "nor does it wait for a ring";
    EXPECT_TRUE(bench.core.frames().notice(kHead, wire::Method::kKvPut, wire::KvEntry{"key", "x"}));
  }
  EXPECT_EQ(told, ErrorCode::kInvalidArgument);
  EXPECT_EQ(bench.core.requests().open(), 0u);
  EXPECT_EQ(bench.sent.size(), 1u);
}

/// Frames to the dead are dropped: nobody would answer.
TEST(Requests, RQ1_WhoAsksTheDeadIsToldSo) {
  const ProcessId dead{2, 7}, of_dead_node{3, 8};
  Bench bench;
  wire::ProcessDied died;
  died.process = dead;
  bench.notice(wire::Method::kProcessDied, died);
  bench.notice(wire::Method::kNodeDied, wire::NodeDied{3, "c", "gone"});
  std::vector<ErrorCode> told;
  CoreLock lock(bench.core);
  for (ProcessId to : {dead, of_dead_node})
    bench.core.requests().send<wire::Empty>(to, wire::Method::kGroupWord, wire::Empty{}, [&](auto reply) {
      if (!reply.ok()) told.push_back(reply.error().code());
    });
  EXPECT_EQ(told, (std::vector{ErrorCode::kWorkerCrashed, ErrorCode::kWorkerCrashed}));
  EXPECT_EQ(bench.core.requests().open(), 0u);
}

/// What names memory of a node that is dead already is counted all the same: its sender would hold it for ever.
TEST(Requests, RQ1_AFrameThatNamesMemoryOfADeadNodeIsAcknowledged) {
  Bench bench;
  bench.attached_peers.insert(kPeer);
  bench.notice(wire::Method::kNodeDied, wire::NodeDied{3, "c", "gone"});
  CoreLock lock(bench.core);
  Owner& owner = bench.core.owner();
  const Arrival arrival = owner.holds().begin(kPeer, 5);
  const detail::BufferPtr buffer = owner.buffers().arrived({3, 7, 1, 100}, arrival.number);
  EXPECT_EQ(bench.count(Control::kHoldAck), 0u) << "the frame is not read to its end";
  owner.holds().end(arrival);
  EXPECT_EQ(bench.count(Control::kHoldAck), 1u) << "OH-1";
  EXPECT_EQ(buffer_of(buffer).state, BufferEntry::State::kLost);
}

/// REVIEW B.5: a process of another node that takes nothing costs its caller memory, and no other frame its way.
TEST(FrameRouter, CR4_FramesForAProcessThatTakesNothingWaitAndOthersPassThem) {
  const ProcessId frozen{2, 7}, other{2, 8};
  Bench bench;
  bench.notice(wire::Method::kCongestion, wire::Congestion{frozen, true});
  {
    CoreLock lock(bench.core);
    for (std::uint64_t n : {1, 2}) bench.core.frames().control(frozen, Control::kHoldAck, n);
    bench.core.frames().control(other, Control::kHoldAck, 3);
  }
  ASSERT_EQ(bench.count(Control::kHoldAck), 1u);
  EXPECT_EQ(bench.take(Control::kHoldAck).header.destination, other);
  bench.notice(wire::Method::kCongestion, wire::Congestion{frozen, false});
  for (std::uint64_t n : {1, 2}) {
    const SentFrame frame = bench.take(Control::kHoldAck);
    EXPECT_EQ(frame.ring, Bench::kDaemon);
    EXPECT_EQ(frame.header.destination, frozen);
    EXPECT_EQ(frame.header.arg1, n) << "CR-1";
  }
  CoreLock lock(bench.core);
  bench.core.frames().control(frozen, Control::kHoldAck, 4);
  EXPECT_EQ(bench.take(Control::kHoldAck).header.arg1, 4u);
}

TEST(FrameRouter, CR4_WhatWaitsForADeadProcessIsDropped) {
  const ProcessId frozen{2, 7};
  Bench bench;
  bench.notice(wire::Method::kCongestion, wire::Congestion{frozen, true});
  {
    CoreLock lock(bench.core);
    bench.core.frames().control(frozen, Control::kHoldAck, 1);
  }
  bench.notice(wire::Method::kNodeDied, wire::NodeDied{2, "b", "gone"});
  bench.notice(wire::Method::kCongestion, wire::Congestion{frozen, false});
  EXPECT_EQ(bench.count(Control::kHoldAck), 0u);
}

/// A driver outlives hundreds of thousands of its actors' processes.
TEST(FrameRouter, CR7_WhatIsKeptOfTheDeadIsBounded) {
  constexpr std::uint32_t kOthers = 2 * FrameRouter::kDeadKept;
  Bench bench;
  CoreLock lock(bench.core);
  FrameRouter& frames = bench.core.frames();
  const std::size_t before = frames.known();
  for (std::uint32_t n = 0; n < kOthers; ++n) {
    const ProcessId peer{2, 100 + n};
    EXPECT_EQ(frames.next_call_number(peer), 1u);
    frames.process_died(peer);
  }
  EXPECT_EQ(frames.known(), before + FrameRouter::kDeadKept);
  EXPECT_TRUE(frames.is_dead({2, 99 + kOthers}));
  for (std::uint32_t n = 0; n < 10; ++n) frames.next_call_number({3, 1 + n});
  EXPECT_EQ(frames.known(), before + FrameRouter::kDeadKept + 10);
  frames.node_died(3);
  EXPECT_EQ(frames.known(), before + FrameRouter::kDeadKept);
}

/// Found by the simulator (CI-10): a call that was sent while the news of its process's death was gone through got the
/// number of the first one, which had begun there.
TEST(FrameRouter, CR8_NoCallToADeadProcessHasTheNumberOfOneThatItBegan) {
  Bench bench;
  CoreLock lock(bench.core);
  FrameRouter& frames = bench.core.frames();
  net::BegunCalls begun;
  begun.raise(frames.next_call_number(kPeer));
  ASSERT_TRUE(begun.has(1));
  const ProcessId of_lost_node{3, 1};
  frames.next_call_number(of_lost_node);
  frames.process_died(kPeer);
  frames.node_died(3);
  const std::size_t before = frames.known();
  EXPECT_FALSE(begun.has(frames.next_call_number(kPeer)));
  EXPECT_FALSE(begun.has(frames.next_call_number(of_lost_node)));
  EXPECT_EQ(frames.known(), before);  // CR-7
}

/// The daemon's answer was on its way when the peer died.
TEST(FrameRouter, CR7_ARingRefusedAfterThePeersDeathLeavesNothing) {
  Bench bench;
  FrameRouter& frames = bench.core.frames();
  {
    CoreLock lock(bench.core);
    frames.control(kPeer, Control::kHoldAck, 1);
  }
  const SentFrame request = bench.take(wire::Method::kConnect);
  {
    CoreLock lock(bench.core);
    frames.process_died(kPeer);
  }
  const std::size_t before = frames.known();
  bench.respond(request, wire::ConnectReply{true});
  CoreLock lock(bench.core);
  EXPECT_EQ(frames.known(), before);
  EXPECT_EQ(frames.route(kPeer), kPeer);
}

/// REVIEW B.5: what a sender has for a node that takes nothing holds up none of its other frames.
TEST(FrameRouter, CR4_FramesForANodeThatTakesNothingWaitAndOthersPassThem) {
  const ProcessId slow{2, 7}, other_slow{2, 8}, other{3, 8};
  Bench bench;
  bench.notice(wire::Method::kCongestion, wire::Congestion{slow, true});
  bench.notice(wire::Method::kCongestion, wire::Congestion{daemon_of(2), true});
  {
    CoreLock lock(bench.core);
    bench.core.frames().control(slow, Control::kHoldAck, 1);
    bench.core.frames().control(other_slow, Control::kHoldAck, 2);
    bench.core.frames().control(other, Control::kHoldAck, 3);
    bench.core.frames().control(Bench::kDaemon, Control::kHoldAck, 4);
  }
  EXPECT_EQ(bench.take(Control::kHoldAck).header.destination, other);
  EXPECT_EQ(bench.take(Control::kHoldAck).header.destination, Bench::kDaemon);
  EXPECT_EQ(bench.count(Control::kHoldAck), 0u);
  bench.notice(wire::Method::kCongestion, wire::Congestion{daemon_of(2), false});
  EXPECT_EQ(bench.take(Control::kHoldAck).header.arg1, 2u);
  EXPECT_EQ(bench.count(Control::kHoldAck), 0u) << "the process itself is clogged still";
  bench.notice(wire::Method::kCongestion, wire::Congestion{slow, false});
  EXPECT_EQ(bench.take(Control::kHoldAck).header.arg1, 1u);
}

/// Behind what waits for the daemon's ring nobody can pass, so it is bounded, before the daemon has said a word.
TEST(FrameRouter, CR4_NoMoreWaitsForTheDaemonThanWhatIsNamed) {
  const ProcessId first{2, 7}, second{3, 7};
  Bench bench;
  bench.backlogs[Bench::kDaemon] = FrameRouter::kOutboxMax + 1;
  {
    CoreLock lock(bench.core);
    for (std::uint64_t n : {1, 2}) bench.core.frames().control(first, Control::kHoldAck, n);
    bench.core.frames().control(second, Control::kHoldAck, 3);
    EXPECT_EQ(bench.core.frames().backlog(first), 2 * sizeof(net::FrameHeader));
    bench.core.frames().control(Bench::kDaemon, Control::kHoldAck, 4);
  }
  EXPECT_EQ(bench.take(Control::kHoldAck).header.destination, Bench::kDaemon) << "its own never wait";
  bench.advance(FrameRouter::kLook);
  EXPECT_EQ(bench.count(Control::kHoldAck), 0u);
  bench.backlogs.clear();
  bench.advance(FrameRouter::kLook);
  for (std::uint64_t n : {1, 3, 2}) EXPECT_EQ(bench.take(Control::kHoldAck).header.arg1, n) << "in turns";
  CoreLock lock(bench.core);
  bench.core.frames().control(first, Control::kHoldAck, 5);
  EXPECT_EQ(bench.take(Control::kHoldAck).header.arg1, 5u);
}

ReleasedGrants released(const std::vector<std::byte>& payload) {
  ReleasedGrants grants;
  std::memcpy(&grants, payload.data(), sizeof grants);
  return grants;
}

/// A worker that sends for the first time to somebody, and ends. (PRC-1)
TEST(FrameRouter, WhatWaitsForARingIsHeld) {
  Bench bench;
  CoreLock lock(bench.core);
  EXPECT_FALSE(bench.core.frames().any_held());
  bench.core.frames().control(kPeer, Control::kCancel, 1, 0);
  EXPECT_TRUE(bench.core.frames().any_held());
  bench.attached_peers.insert(kPeer);
  bench.core.frames().connected(kPeer);
  EXPECT_FALSE(bench.core.frames().any_held());
}

/// Also on a ring of this node: an object that comes and goes while its owner is frozen is one entry.
TEST(FrameRouter, CR5_CountsForAnOwnerThatTakesNothingAreSummedUp) {
  for (const ProcessId owner : {kPeer, ProcessId{2, 7}}) {
    const ProcessId ring = owner.node == 1 ? owner : Bench::kDaemon;
    const ObjectId object{owner, 5};
    Bench bench;
    bench.attached_peers.insert(kPeer);
    bench.backlogs[ring] = FrameRouter::kOutboxMax + 1;
    std::size_t once = 0;
    for (int i = 0; i < 1000; ++i) {
      CoreLock lock(bench.core);
      bench.core.frames().count(Count::kBorrow, object);
      bench.core.frames().count(Count::kValueRequest, object);
      bench.core.frames().count(Count::kRelease, object, 2);
      if (i == 0) once = bench.core.frames().backlog(owner);
      EXPECT_EQ(bench.core.frames().backlog(owner), once);
    }
    bench.backlogs.clear();
    bench.advance(FrameRouter::kLook);
    ASSERT_EQ(bench.sent.size(), 3u);
    EXPECT_TRUE(bench.sent[0].is(Control::kBorrow));
    EXPECT_EQ(bench.sent[1].kind(), wire::FrameKind::kValueRequest);
    ASSERT_TRUE(bench.sent[2].is(Control::kRelease));
    EXPECT_EQ(bench.sent[2].ring, ring);
    EXPECT_EQ(released(bench.sent[2].payload).id, object);
    EXPECT_EQ(released(bench.sent[2].payload).grants, 2000u);
    CoreLock lock(bench.core);
    bench.core.frames().count(Count::kRelease, object, 1);
    EXPECT_EQ(bench.count(Control::kRelease), 2u) << "at once again";
  }
}

// ----------------------------------------------------------------------------------------------------------- the queue

ByteView bytes_of(const ReleasedGrants& grants) { return std::as_bytes(std::span(&grants, 1)); }

std::vector<std::uint64_t> drain(HeldFrames& held, const std::set<ProcessId>& closed = {}) {
  std::vector<std::uint64_t> numbers;
  ProcessId to;
  HeldFrames::Frame frame;
  while (held.next([&](ProcessId one) { return !closed.contains(one); }, to, frame))
    numbers.push_back(frame.header.token);
  return numbers;
}
net::FrameHeader numbered(std::uint64_t number) {
  net::FrameHeader header;
  header.token = number;
  return header;
}

TEST(HeldFrames, HLF1_InOrderADestinationAndInTurns) {
  const ProcessId a{2, 1}, b{2, 2}, c{3, 1};
  HeldFrames held;
  for (std::uint64_t n : {1, 2, 3}) held.add(a, numbered(n), {});
  for (std::uint64_t n : {11, 12}) held.add(b, numbered(n), {});
  held.add(c, numbered(21), {});
  EXPECT_EQ(drain(held, {a}), (std::vector<std::uint64_t>{11, 21, 12}));
  EXPECT_FALSE(held.contains(b));
  EXPECT_EQ(held.bytes(a), 3 * sizeof(net::FrameHeader));
  EXPECT_EQ(drain(held), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_TRUE(held.empty());
}

TEST(HeldFrames, HLF2_AReleaseMovesToTheEndAndAQuestionStays) {
  const ProcessId owner{2, 1};
  const ObjectId x{owner, 1}, y{owner, 2};
  HeldFrames held;
  held.count(owner, Count::kRelease, x, numbered(1), bytes_of({x, 3}));
  held.count(owner, Count::kBorrow, x, numbered(2), {});
  held.add(owner, numbered(3), {});
  held.count(owner, Count::kRelease, y, numbered(4), bytes_of({y, 1}));
  held.count(owner, Count::kBorrow, x, numbered(5), {});
  held.count(owner, Count::kRelease, x, numbered(6), bytes_of({x, 4}));
  EXPECT_EQ(held.frames(owner), 4u);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> got;
  ProcessId to;
  HeldFrames::Frame frame;
  while (held.next([](ProcessId) { return true; }, to, frame))
    got.emplace_back(frame.header.token, frame.payload.empty() ? 0 : released(frame.payload).grants);
  EXPECT_EQ(got, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{2, 0}, {3, 0}, {4, 1}, {6, 7}}));
}

TEST(HeldFrames, HLF3_OnlyTheDeadLoseTheirs) {
  HeldFrames held;
  held.add({2, 1}, numbered(1), {});
  held.add({2, 2}, numbered(2), {});
  held.add({3, 1}, numbered(3), {});
  held.add({3, 2}, numbered(4), {});
  held.drop({3, 1});
  held.drop_node(2);
  EXPECT_EQ(drain(held), (std::vector<std::uint64_t>{4}));
}

}  // namespace
}  // namespace troupe::worker
