// Two Links in one process: LK-1 to LK-4 of net/link/link.h.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "recorder.h"

namespace troupe::net::testing {
namespace {

template <class E> bool is_a(const ErrorPtr& error) { return dynamic_cast<const E*>(error.get()) != nullptr; }

struct Pair {
  Recorder server_events, client_events;
  std::unique_ptr<Links> server, client;
  int port = 0;

  explicit Pair(LinksOptions server_options = options_for("server"),
                LinksOptions client_options = options_for("client"), ListenOptions listen = {}) {
    server = *open_links(server_events, server_options);
    client = *open_links(client_events, client_options);
    port = *server->listen(listen);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port); }
  Result<LinkId> connect() { return client->connect({.address = address(), .timeout = kPatience}); }
};

TEST(Link, BothSidesSeeTheOthersHello) {
  Pair pair;
  auto link = pair.connect();
  ASSERT_TRUE(link.ok()) << link.error().what();
  EXPECT_EQ(pair.client_events.seen(*link).hello, "server");
  EXPECT_TRUE(pair.client_events.seen(*link).outgoing);
  const LinkId incoming = pair.server_events.wait_incoming();
  ASSERT_NE(incoming, 0u);
  EXPECT_EQ(pair.server_events.seen(incoming).hello, "client");
}

TEST(Link, AMillionSmallFramesArriveOnceInOrderAndCoalesced) {  // LK-1
  Pair pair;
  auto link = pair.connect();
  ASSERT_TRUE(link.ok()) << link.error().what();
  constexpr std::uint64_t kFrames = 1'000'000;
  const std::vector<std::byte> payload(16);
  for (std::uint64_t i = 0; i < kFrames; ++i) ASSERT_TRUE(pair.client->send(*link, numbered(i), payload));
  const LinkId incoming = pair.server_events.wait_incoming();
  ASSERT_TRUE(pair.server_events.wait_frames(incoming, kFrames));
  const auto seen = pair.server_events.seen(incoming);
  EXPECT_EQ(seen.frames, kFrames);
  EXPECT_TRUE(seen.in_order);
  EXPECT_TRUE(seen.whole);
  EXPECT_EQ(seen.payload, kFrames * payload.size());
  EXPECT_LT(seen.batches, kFrames / 10) << "frames that gather during a write go out together";
  EXPECT_LE(seen.biggest_batch, kBatchTarget);
  const auto stats = pair.client->stats();
  EXPECT_EQ(stats.frames_sent, kFrames);
  EXPECT_EQ(stats.batches_sent, seen.batches);
}

TEST(Link, AFrameOnAnIdleLinkGoesAtOnceAlone) {
  Pair pair;
  auto link = pair.connect();
  ASSERT_TRUE(link.ok());
  const LinkId incoming = pair.server_events.wait_incoming();
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(pair.client->send(*link, numbered(i)));
    ASSERT_TRUE(pair.server_events.wait_frames(incoming, i + 1));
  }
  EXPECT_EQ(pair.server_events.seen(incoming).batches, 20u);
}

TEST(Link, FramesSentInsideOnOpenAndBothWaysArrive) {
  struct Greeter : Recorder {
    Links* links = nullptr;
    void on_open(LinkId link, const LinkPeer& peer) override {
      for (std::uint64_t i = 0; i < 100; ++i) links->send(link, numbered(i));
      Recorder::on_open(link, peer);
    }
  };
  Greeter a, b;
  auto server = *open_links(a, options_for("a"));
  auto client = *open_links(b, options_for("b"));
  a.links = server.get();
  b.links = client.get();
  const int port = *server->listen({});
  auto link = client->connect({.address = "127.0.0.1:" + std::to_string(port)});
  ASSERT_TRUE(link.ok()) << link.error().what();
  EXPECT_TRUE(b.wait_frames(*link, 100));
  const LinkId incoming = a.wait_incoming();
  EXPECT_TRUE(a.wait_frames(incoming, 100));
  EXPECT_TRUE(a.seen(incoming).in_order);
  server->shutdown();  // before the Greeters, whose links pointers it uses
  client->shutdown();
}

TEST(Link, ManySendersKeepTheirOrderAndTheLongestFramePasses) {
  Pair pair;
  auto link = pair.connect();
  ASSERT_TRUE(link.ok());
  constexpr int kSenders = 4;
  constexpr std::uint64_t kEach = 20'000;
  std::vector<std::uint64_t> next(kSenders, 0);
  std::atomic<bool> in_order{true};
  std::atomic<std::size_t> longest{0};
  pair.server_events.before_batch = [&](LinkId, ByteView batch) {
    for_each_frame(batch, [&](const FrameHeader& header, ByteView payload) {
      if (header.arg0 < kSenders && next[header.arg0]++ != header.arg1) in_order = false;
      longest = std::max(longest.load(), payload.size());
    });
  };
  std::vector<std::thread> senders;
  for (int s = 0; s < kSenders; ++s) {
    senders.emplace_back([&, s] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        FrameHeader header;
        header.arg0 = std::uint64_t(s);
        header.arg1 = i;
        pair.client->send(*link, header);
      }
    });
  }
  const std::vector<std::byte> largest(kPayloadMax);
  FrameHeader header;
  header.arg0 = 99;
  EXPECT_TRUE(pair.client->send(*link, header, largest));
  for (auto& sender : senders) sender.join();
  ASSERT_TRUE(pair.server_events.wait_frames(pair.server_events.wait_incoming(), kSenders * kEach + 1));
  EXPECT_TRUE(in_order);
  EXPECT_EQ(longest, kPayloadMax);
  std::vector<std::byte> too_long(kPayloadMax + 1);
  EXPECT_FALSE(pair.client->send(*link, header, too_long));
}

TEST(Link, ASlowReaderFillsTheBacklogAndLosesNothing) {  // LK-4
  Pair pair;
  std::mutex gate;
  std::unique_lock closed(gate);
  pair.server_events.before_batch = [&](LinkId, ByteView) { std::lock_guard wait(gate); };
  auto link = pair.connect();
  ASSERT_TRUE(link.ok());
  const std::vector<std::byte> payload(64 * 1024);
  constexpr std::uint64_t kFrames = 1000;  // 64 MiB: more than all windows and socket buffers together
  for (std::uint64_t i = 0; i < kFrames; ++i) ASSERT_TRUE(pair.client->send(*link, numbered(i), payload));
  EXPECT_GT(pair.client->backlog(*link), 16u << 20);
  closed.unlock();
  const LinkId incoming = pair.server_events.wait_incoming();
  ASSERT_TRUE(pair.server_events.wait_frames(incoming, kFrames));
  EXPECT_TRUE(pair.server_events.seen(incoming).in_order);
  while (pair.client->backlog(*link) != 0) std::this_thread::yield();  // the test's own time limit bounds it
}

TEST(Link, CloseDeliversWhatWasSentBefore) {
  for (const bool by_client : {true, false}) {
    Pair pair;
    auto link = pair.connect();
    ASSERT_TRUE(link.ok());
    const LinkId incoming = pair.server_events.wait_incoming();
    Links& closer = by_client ? *pair.client : *pair.server;
    const LinkId mine = by_client ? *link : incoming, theirs = by_client ? incoming : *link;
    Recorder& other = by_client ? pair.server_events : pair.client_events;
    for (std::uint64_t i = 0; i < 10'000; ++i) ASSERT_TRUE(closer.send(mine, numbered(i)));
    closer.close(mine);
    EXPECT_FALSE(closer.send(mine, numbered(0)));
    ASSERT_TRUE(other.wait_closed(theirs));
    ASSERT_TRUE((by_client ? pair.client_events : pair.server_events).wait_closed(mine));
    EXPECT_EQ(other.seen(theirs).frames, 10'000u);
    EXPECT_EQ(other.seen(theirs).why, nullptr) << other.seen(theirs).why->what();
    EXPECT_EQ((by_client ? pair.client_events : pair.server_events).seen(mine).why, nullptr);
  }
}

TEST(Link, AbortEndsBothSidesWithTheReason) {
  Pair pair;
  auto link = pair.connect();
  ASSERT_TRUE(link.ok());
  const LinkId incoming = pair.server_events.wait_incoming();
  pair.client->abort(*link, "fenced");
  ASSERT_TRUE(pair.client_events.wait_closed(*link));
  EXPECT_TRUE(is_a<CancelledError>(pair.client_events.seen(*link).why));
  ASSERT_TRUE(pair.server_events.wait_closed(incoming));
  EXPECT_TRUE(is_a<NodeDiedError>(pair.server_events.seen(incoming).why));
}

TEST(Link, EveryDialedLinkIsClosedOnceAndLast) {  // LK-2
  Pair pair;
  std::vector<LinkId> links;
  for (int i = 0; i < 20; ++i) links.push_back(*pair.client->dial({.address = pair.address()}));
  links.push_back(*pair.client->dial({.address = "127.0.0.1:1"}));
  for (std::size_t i = 0; i < links.size(); i += 2) pair.client->close(links[i]);
  pair.client->shutdown();
  for (const auto link : links) {
    EXPECT_EQ(pair.client_events.seen(link).closes, 1) << link;
    EXPECT_LE(pair.client_events.seen(link).opens, 1) << link;
  }
}

TEST(Link, ShutdownOfOneSideIsSeenByTheOther) {
  Pair pair;
  auto link = pair.connect();
  ASSERT_TRUE(link.ok());
  pair.server->shutdown();
  ASSERT_TRUE(pair.client_events.wait_closed(*link));
  EXPECT_FALSE(pair.client->send(*link, numbered(0)));
  EXPECT_EQ(pair.client->backlog(*link), 0u);
}

TEST(Link, ManyLinksAtOnceAndLinksAfterLinks) {
  Pair pair;
  for (int round = 0; round < 3; ++round) {
    std::vector<LinkId> links;
    for (int i = 0; i < 40; ++i) {
      auto link = pair.connect();
      ASSERT_TRUE(link.ok()) << link.error().what();
      links.push_back(*link);
      ASSERT_TRUE(pair.client->send(*link, numbered(0)));
    }
    for (const auto link : links) pair.client->close(link);
    for (const auto link : links) ASSERT_TRUE(pair.client_events.wait_closed(link));
  }
  EXPECT_TRUE(pair.server_events.wait([](const auto& all) {
    std::uint64_t ended = 0;
    for (const auto& [id, seen] : all) ended += seen.closed;
    return ended == 120;
  }));
  for (LinkId link = 1; link <= 120; ++link) {
    const auto seen = pair.server_events.seen(link);
    EXPECT_EQ(seen.frames, 1u) << link;
    if (seen.why) ADD_FAILURE() << link << ": " << seen.why->what();
  }
}

}  // namespace
}  // namespace troupe::net::testing
