// Promises NEP-1, NEP-3, NEP-4, NEP-5 of an Endpoint, and what attach and detach say. Two endpoints in one process.
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <random>

#include "core/net/ring/ring.h"
#include "tests/net/net_fixture.h"

namespace troupe::net::testing {
namespace {

constexpr ProcessId kA{1, 1}, kB{1, 2};

class TwoEnds : public ::testing::Test {
 protected:
  void receive_at_b() {
    at_b.message = [this](ProcessId from, const FrameHeader& header, ByteView payload) {
      EXPECT_EQ(from, kA);
      got.emplace_back(header.token, text_of(payload));
    };
    at_b.broken = [this](ProcessId, const ErrorPtr& why) { broken.push_back(why->what()); };
  }
  std::size_t drain_b() {  // everything that is there now
    std::size_t total = 0;
    while (const int n = b->try_drain(at_b, 1000)) total += static_cast<std::size_t>(n);
    return total;
  }
  bool send(std::uint64_t token, std::string_view payload = {}) {
    return a->send(kB, {.token = token}, bytes_of(payload));
  }

  std::unique_ptr<Endpoint> a = make_endpoint(kA), b = make_endpoint(kB);
  Calls at_a, at_b;
  std::vector<std::pair<std::uint64_t, std::string>> got;
  std::vector<std::string> broken;
};

TEST_F(TwoEnds, HeaderAndPiecesArriveAsOneMessage) {
  join(*a, *b);
  FrameHeader seen;
  std::string payload;
  at_b.message = [&](ProcessId, const FrameHeader& header, ByteView bytes) { seen = header, payload = text_of(bytes); };
  const ByteView pieces[] = {bytes_of("one"), {}, bytes_of("two")};
  const FrameHeader header{.kind = 9,
                           .flags = 3,
                           .source = {7, 8},
                           .destination = {9, 10},
                           .token = 11,
                           .arg0 = 12,
                           .arg1 = 13,
                           .arg2 = 14,
                           .arg3 = 15};
  ASSERT_TRUE(a->send(kB, header, pieces));
  ASSERT_EQ(drain_b(), 1u);
  EXPECT_EQ(payload, "onetwo");
  EXPECT_EQ(seen.payload_size, 6u);
  EXPECT_EQ(seen.kind, 9);
  EXPECT_EQ(seen.source, (ProcessId{7, 8})) << "who sent it need not be who forwarded it";
  EXPECT_EQ(seen.destination, (ProcessId{9, 10}));
  EXPECT_EQ(seen.token + seen.arg0 + seen.arg1 + seen.arg2 + seen.arg3 + seen.flags, 11u + 12 + 13 + 14 + 15 + 3);
}

TEST_F(TwoEnds, WhatTheRingDoesNotTakeWaitsInOrderAndIsCounted) {
  receive_at_b();
  join(*a, *b, kRingMin);
  constexpr int kMessages = 2000;
  for (int n = 0; n < kMessages; ++n) ASSERT_TRUE(send(n, pattern(n % 300, n)));
  EXPECT_GT(a->backlog(kB), 100000u);
  // Each time the reader made room it rings the writer, whose poll writes more.
  while (got.size() < kMessages) {
    const std::size_t before = got.size();
    drain_b();
    a->try_drain(at_a, 10);
    ASSERT_GT(got.size(), before) << "stuck with a backlog of " << a->backlog(kB);
  }
  EXPECT_EQ(a->backlog(kB), 0u);
  for (int n = 0; n < kMessages; ++n) {
    ASSERT_EQ(got[n].first, static_cast<std::uint64_t>(n));
    ASSERT_EQ(got[n].second, pattern(n % 300, n));
  }
}

TEST_F(TwoEnds, LongMessagesOfOnePeerDoNotDelayAnother) {
  constexpr ProcessId kC{1, 3};
  auto c = make_endpoint(kC);
  join(*a, *b, kRingMin);
  join(*c, *b, kRingMin);
  const std::string large = pattern(3 << 20, 1);
  std::vector<ProcessId> order;
  bool same = false;
  at_b.message = [&](ProcessId from, const FrameHeader&, ByteView payload) {
    order.push_back(from);
    if (from == kA) same = text_of(payload) == large;
  };
  ASSERT_TRUE(a->send(kB, {}, bytes_of(large)));
  for (int n = 0; n < 10; ++n) ASSERT_TRUE(c->send(kB, {}, bytes_of("short")));
  while (order.size() < 11) {
    b->try_drain(at_b, 100);
    a->try_drain(at_a, 100);
  }
  EXPECT_TRUE(same);
  EXPECT_EQ(order.back(), kA) << "ten short ones came through while the long one was cut up";
}

TEST_F(TwoEnds, TheLargestMessageGoesThroughAndOneAboveDoesNot) {
  join(*a, *b, kRingMax);
  std::vector<char> storage(kPayloadMax + 1, 'x');
  std::size_t size = 0;
  at_b.message = [&](ProcessId, const FrameHeader&, ByteView payload) { size = payload.size(); };
  const ByteView all = std::as_bytes(std::span(storage));
  EXPECT_FALSE(a->send(kB, {}, all));
  ASSERT_TRUE(a->send(kB, {}, all.first(kPayloadMax)));
  while (size == 0) {
    b->try_drain(at_b, 100);
    a->try_drain(at_a, 100);
  }
  EXPECT_EQ(size, kPayloadMax);
}

TEST_F(TwoEnds, AHandlerMaySendAttachAndDetach) {
  constexpr ProcessId kC{1, 3};
  auto c = make_endpoint(kC);
  join(*a, *b);
  int from_c = 0;
  at_b.message = [&](ProcessId from, const FrameHeader& header, ByteView payload) {
    if (from == kC) {
      ++from_c;
      b->detach(kC);
      EXPECT_FALSE(b->attached(kC));
      EXPECT_EQ(text_of(payload), "hello") << "the payload outlives its pair until the handler returns";
      return;
    }
    EXPECT_TRUE(b->send(from, header, payload));
    if (header.token == 1) join(*b, *c);
  };
  send(1);
  send(2);
  ASSERT_EQ(drain_b(), 2u);
  int back = 0;
  at_a.message = [&](ProcessId, const FrameHeader&, ByteView) { ++back; };
  a->try_drain(at_a, 10);
  EXPECT_EQ(back, 2);
  c->send(kB, {}, bytes_of("hello"));
  c->send(kB, {}, bytes_of("too late"));
  drain_b();
  EXPECT_EQ(from_c, 1);
}

TEST_F(TwoEnds, AHandlerMayDrainAnotherPeerThatDied) {
  constexpr ProcessId kC{1, 3};
  auto c = make_endpoint(kC);
  join(*a, *b);
  join(*c, *b);
  std::vector<std::string> order;
  at_b.message = [&](ProcessId, const FrameHeader&, ByteView payload) {
    order.push_back(text_of(payload));
    if (text_of(payload) == "notice") { EXPECT_EQ(b->drain_and_close(kC, at_b), 2u); }
  };
  c->send(kB, {}, bytes_of("c1"));
  send(0, "notice");
  c->send(kB, {}, bytes_of("c2"));
  send(0, "after");
  while (b->try_drain(at_b, 1)) {}
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, (std::vector<std::string>{"after", "c1", "c2", "notice"}));
}

TEST_F(TwoEnds, MessagesSentBeforeTheOtherSideAttachedArrive) {
  receive_at_b();
  UniqueFd pair = make_pair_fd();
  a->attach(attachment(*b, pair.get(), 0)).value();
  ASSERT_TRUE(send(1, "early"));
  EXPECT_EQ(drain_b(), 0u);
  b->attach(attachment(*a, pair.get(), 1)).value();
  EXPECT_EQ(drain_b(), 1u);
}

TEST_F(TwoEnds, AttachRefusesWhatItCannotUse) {
  UniqueFd pair = make_pair_fd();
  EXPECT_FALSE(a->attach(attachment(*b, pair.get(), 2)).ok());
  EXPECT_FALSE(a->attach(attachment(*b, -1, 0)).ok());
  EXPECT_FALSE(a->attach(attachment(*b, b->doorbell_fd(), 0)).ok()) << "not a pair";
  Attachment swapped = attachment(*b, pair.get(), 0);
  swapped.peer_doorbell = UniqueFd(::dup(pair.get()));
  EXPECT_FALSE(a->attach(std::move(swapped)).ok());
  EXPECT_FALSE(a->attached(kB));
  EXPECT_TRUE(a->attach(attachment(*b, pair.get(), 0)).ok());
  EXPECT_TRUE(a->attached(kB));
  const Status again = a->attach(attachment(*b, pair.get(), 0));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(TwoEnds, NothingIsSentToAStranger) {
  EXPECT_FALSE(send(1));
  EXPECT_EQ(a->backlog(kB), 0u);
  EXPECT_EQ(a->begun(kB), 0u);
  a->detach(kB);
  join(*a, *b);
  EXPECT_TRUE(send(1));
  a->detach(kB);
  EXPECT_FALSE(send(2));
  EXPECT_FALSE(a->attached(kB));
}

TEST_F(TwoEnds, BegunTellsTheCallerWhatTheCalleeStarted) {
  join(*a, *b);
  EXPECT_EQ(a->begun(kB), 0u);
  b->set_begun(kA, 17);
  EXPECT_EQ(a->begun(kB), 17u);
  EXPECT_EQ(b->begun(kA), 0u) << "each direction has its own";
  b.reset();
  EXPECT_EQ(a->begun(kB), 17u) << "still there when the callee is not";
}

TEST_F(TwoEnds, NIN5_APausedPeerKeepsItsMessagesAndStillGetsItsOwn) {
  receive_at_b();
  join(*a, *b, kRingMin);
  int at_sender = 0;
  at_a.message = [&](ProcessId, const FrameHeader&, ByteView) { ++at_sender; };
  for (int n = 0; n < 10; ++n) send(n);
  at_b.message = [this](ProcessId, const FrameHeader& header, ByteView payload) {
    got.emplace_back(header.token, text_of(payload));
    if (header.token == 4) b->pause(kA);  // from within the handler, as the daemon does
  };
  drain_b();
  EXPECT_EQ(got.size(), 5u) << "nothing after the message that paused it";
  for (int n = 10; n < 1000; ++n) ASSERT_TRUE(send(n, pattern(100, n)));
  EXPECT_EQ(drain_b(), 0u);
  EXPECT_GT(a->backlog(kB), 50'000u) << "what it sends waits in its own process";
  ASSERT_TRUE(b->send(kA, {.token = 1}));
  EXPECT_EQ(a->try_drain(at_a, 10), 1);
  b->resume(kA);
  b->resume(kA);
  while (got.size() < 1000) {
    const std::size_t before = got.size();
    drain_b();
    a->try_drain(at_a, 10);
    ASSERT_GT(got.size(), before) << "stuck with a backlog of " << a->backlog(kB);
  }
  for (std::uint64_t n = 0; n < 1000; ++n) ASSERT_EQ(got[n].first, n);
  b->pause(kA);
  for (int n = 0; n < 3; ++n) send(n);
  EXPECT_EQ(b->drain_and_close(kA, at_b), 3u) << "the last messages of a dead process come in any case";
}

TEST_F(TwoEnds, PublishedMessagesOutliveTheirSender) {
  receive_at_b();
  join(*a, *b);
  for (int n = 0; n < 20; ++n) send(n);
  a.reset();
  EXPECT_EQ(b->drain_and_close(kA, at_b), 20u);
  EXPECT_EQ(got.size(), 20u);
  EXPECT_FALSE(b->attached(kA));
  EXPECT_EQ(b->drain_and_close(kA, at_b), 0u);
}

// ---- damaged memory (NEP-4)

struct Damaged : TwoEnds {
  void SetUp() override {
    receive_at_b();
    at_a.broken = [this](ProcessId, const ErrorPtr& why) { broken.push_back(why->what()); };
    UniqueFd fd = make_pair_fd();
    a->attach(attachment(*b, fd.get(), 0)).value();
    b->attach(attachment(*a, fd.get(), 1)).value();
    drain_b();
    pair = open_ring_pair(fd.get()).value();
  }
  PairMapping pair;
};

TEST_F(Damaged, ABadWritePositionClosesThePairAndIsToldOnce) {
  pair.ring[0].control->tail.store(1 << 30);
  b->ring_always(kA);
  send(1);  // rings: b looks
  pair.ring[0].control->tail.store(1 << 30);
  drain_b();
  drain_b();
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_NE(broken[0].find("write position"), std::string::npos);
  EXPECT_TRUE(got.empty());
  EXPECT_FALSE(b->send(kA, {}));
  EXPECT_TRUE(b->attached(kA)) << "until the caller detaches it";
  EXPECT_EQ(b->drain_and_close(kA, at_b), 0u);
  EXPECT_FALSE(b->attached(kA));
}

TEST_F(Damaged, ABadReadPositionIsFoundBySendAndToldByTheHolder) {
  pair.ring[0].control->head.store(1 << 30);
  int sent = 0;
  while (sent < 1000 && send(sent, pattern(1000, 1))) ++sent;
  EXPECT_LT(sent, 40);
  EXPECT_FALSE(send(0));
  a->try_drain(at_a, 10);
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_NE(broken[0].find("read position"), std::string::npos);
}

TEST_F(Damaged, AnImpossibleSlotOfThePeerIsNotUsed) {
  pair.ring[1].control->consumer_slot.store(4'000'000);  // a's own slot, as b sees it
  EXPECT_TRUE(b->send(kA, {}));
}

TEST_F(Damaged, RandomBytesInTheRingNeverCrash) {
  for (int seed = 0; seed < 300; ++seed) {
    auto c = make_endpoint({1, 3}), d = make_endpoint({1, 4});
    UniqueFd fd = make_pair_fd(kRingMin);
    c->attach(attachment(*d, fd.get(), 0)).value();
    PairMapping raw = open_ring_pair(fd.get()).value();
    std::mt19937 random(seed);
    for (int n = 0; n < 5; ++n) c->send({1, 4}, {}, bytes_of(pattern(random() % 20000, seed)));
    for (int n = 0; n < 40; ++n) raw.ring[0].data[random() % 1000] = static_cast<std::byte>(random());
    d->attach(attachment(*c, fd.get(), 1)).value();
    Calls ignore;
    for (int n = 0; n < 20; ++n) d->try_drain(ignore, 100);
  }
}

// ---- many

TEST(ManyPeers, AThousandPairsAreToldApartAndServedInTurn) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 7000) GTEST_SKIP() << "needs 7,000 descriptors";
  constexpr std::uint32_t kPeers = 1000;
  auto hub = make_endpoint({1, 0});
  std::vector<std::unique_ptr<Endpoint>> peers;
  for (std::uint32_t n = 1; n <= kPeers; ++n) {
    peers.push_back(make_endpoint({1, n}));
    join(*hub, *peers.back(), kRingMin);
  }
  Calls at_hub;
  std::map<std::uint32_t, std::uint64_t> next;
  std::uint64_t total = 0;
  at_hub.message = [&](ProcessId from, const FrameHeader& header, ByteView) {
    ASSERT_EQ(header.token, next[from.serial]++) << "of " << from.serial;
    ++total;
  };
  std::mt19937 random(5);
  std::map<std::uint32_t, std::uint64_t> sent;
  for (int n = 0; n < 50000; ++n) {
    const std::uint32_t serial = 1 + random() % kPeers;
    ASSERT_TRUE(peers[serial - 1]->send({1, 0}, {.token = sent[serial]++}));
    if (n % 500 == 0) hub->try_drain(at_hub, 200);
  }
  // One that sends without end does not keep the others from their turn.
  for (int n = 0; n < 150; ++n) peers[0]->send({1, 0}, {.token = sent[1]++});
  while (hub->try_drain(at_hub, 1000)) {}
  EXPECT_EQ(total, 50150u);
  // Slots are used again when processes come and go.
  for (std::uint32_t n = 1; n <= kPeers; n += 2) {
    hub->detach({1, n});
    peers[n - 1] = make_endpoint({1, kPeers + n});
    join(*hub, *peers[n - 1], kRingMin);
    ASSERT_TRUE(peers[n - 1]->send({1, 0}, {.token = 0}));
  }
  while (hub->try_drain(at_hub, 1000)) {}
  EXPECT_EQ(total, 50150u + kPeers / 2);
  for (std::uint32_t n = 1; n <= 2 * kPeers; ++n) {
    EXPECT_EQ(hub->attached({1, n}), n <= kPeers ? n % 2 == 0 : n % 2 == 1) << n;
  }
}

TEST(ManyPeers, ABusyPeerDoesNotStarveAQuietOne) {
  auto hub = make_endpoint({1, 0}), busy = make_endpoint({1, 1}), quiet = make_endpoint({1, 2});
  join(*hub, *busy);
  join(*hub, *quiet);
  for (int n = 0; n < 2000; ++n) busy->send({1, 0}, {});
  quiet->send({1, 0}, {});
  Calls at_hub;
  int of_busy = 0, at_quiet = -1;
  at_hub.message = [&](ProcessId from, const FrameHeader&, ByteView) {
    if (from.serial == 1) ++of_busy;
    else at_quiet = of_busy;
  };
  for (int n = 0; n < 20 && at_quiet < 0; ++n) hub->try_drain(at_hub, 20);
  ASSERT_GE(at_quiet, 0);
  EXPECT_LE(at_quiet, 100);
}

}  // namespace
}  // namespace troupe::net::testing
