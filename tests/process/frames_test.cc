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

}  // namespace
}  // namespace troupe::worker
