// Promises of server.h on requests, the full store, holders and deaths, without other processes.
#include <gtest/gtest.h>

#include <thread>

#include "support.h"

namespace troupe::store::test {
namespace {

using namespace std::chrono_literals;

std::vector<StoreEffect> effects(StoreServer& server) {
  std::vector<StoreEffect> all;
  for (StoreEffect& e : server.take_effects()) {
    if (!std::holds_alternative<TrimAsked>(e)) all.push_back(std::move(e));
  }
  return all;
}

struct ServerTest : testing::Test {
  ServerTest()
      : server(std::move(*StoreServer::create({.node = 1, .capacity = 1 << 20, .slots = 1000, .populate = true}))) {
    for (std::uint32_t serial : {1, 2}) EXPECT_TRUE(server->add_client(process(serial)).ok());
  }
  Grant grant(Token token, std::uint64_t size) {
    server->allocate(process(1), token, size);
    auto got = effects(*server);
    return std::get<BufferGranted>(got.at(0)).grant;
  }
  std::unique_ptr<StoreServer> server;
};

TEST_F(ServerTest, AFullStoreQueuesInOrderAndProceedsWhenSomethingIsFreed) {
  Grant big = grant(1, 700 << 10);
  server->allocate(process(1), 2, 600 << 10);
  server->allocate(process(2), 3, 4096);
  EXPECT_TRUE(effects(*server).empty()) << "SS-4: the small one does not overtake";
  EXPECT_EQ(server->usage().waiting, 2u);
  server->maybe_free(process(1), std::span(&big.id, 1));
  auto got = effects(*server);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(std::get<BufferGranted>(got[0]).token, 2u);
  EXPECT_EQ(std::get<BufferGranted>(got[1]).token, 3u);
  EXPECT_EQ(server->audit(), "");
}

TEST_F(ServerTest, ATightStoreAsksItsClientsToTrim) {
  (void)grant(1, 1 << 20);
  server->allocate(process(1), 2, 4096);
  int asked = 0;
  for (const StoreEffect& e : server->take_effects()) asked += std::holds_alternative<TrimAsked>(e);
  EXPECT_EQ(asked, 2);
}

TEST_F(ServerTest, LargerThanTheStoreFailsAtOnceAndTooLateFailsAtItsDeadline) {
  server->allocate(process(1), 1, (1 << 20) + 1);
  auto got = effects(*server);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(std::get<RequestFailed>(got[0]).error->code(), ErrorCode::kObjectStoreFull);
  (void)grant(2, 1 << 20);
  TimePoint start{100s};
  server->allocate(process(1), 3, 4096, start + 5s);
  server->lease(process(2), 4, {65536, 10}, start + 7s);
  EXPECT_EQ(server->next_deadline(), start + 5s);
  server->expire(start + 4s);
  EXPECT_TRUE(effects(*server).empty());
  server->expire(start + 7s);
  got = effects(*server);
  ASSERT_EQ(got.size(), 2u);
  for (const auto& e : got) EXPECT_EQ(std::get<RequestFailed>(e).error->code(), ErrorCode::kObjectStoreFull);
  EXPECT_EQ(server->next_deadline(), std::nullopt);
}

TEST_F(ServerTest, ALeaseMayOvertakeALargeBufferThatWaits) {
  (void)grant(1, 512 << 10);
  server->allocate(process(1), 2, 1 << 20);
  server->lease(process(2), 3, {256 << 10, 16});
  auto got = effects(*server);
  ASSERT_EQ(got.size(), 1u);
  const Lease& lease = std::get<LeaseGranted>(got[0]).lease;
  EXPECT_EQ(lease.range.size, 256u << 10);
  EXPECT_EQ(lease.slots.size(), 16u);
}

TEST_F(ServerTest, ATightStoreGivesSmallerChunks) {
  (void)grant(1, 900 << 10);
  server->lease(process(2), 2, {1 << 20, 4});
  auto got = effects(*server);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(std::get<LeaseGranted>(got[0]).lease.range.size, 64u << 10);
}

TEST_F(ServerTest, ACancelledRequestIsNotGranted) {
  Grant big = grant(1, 1 << 20);
  server->allocate(process(1), 2, 1 << 20);
  server->allocate(process(1), 3, 4096);
  server->cancel_request(process(1), 2);
  server->maybe_free(process(1), std::span(&big.id, 1));
  auto got = effects(*server);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(std::get<BufferGranted>(got[0]).token, 3u);
}

TEST_F(ServerTest, AClosingClientGetsNothingMoreAndLosesNothingYet) {
  (void)grant(1, 512 << 10);
  server->allocate(process(1), 2, 1 << 20);
  server->client_closing(process(1));
  server->allocate(process(1), 3, 4096);
  EXPECT_TRUE(effects(*server).empty());
  EXPECT_EQ(server->usage().used, 512u << 10);
  EXPECT_EQ(server->usage().waiting, 0u);
  server->client_died(process(1));
  EXPECT_EQ(server->usage().used, 0u);
  EXPECT_EQ(server->audit(), "");
}

TEST_F(ServerTest, AnotherClientCannotFreeAnOpenBuffer) {
  Grant open = grant(1, 100 << 10);
  server->maybe_free(process(2), std::span(&open.id, 1));
  EXPECT_EQ(server->usage().used, 100u << 10);
}

TEST_F(ServerTest, OptionsAndClientsAreChecked) {
  EXPECT_FALSE(StoreServer::create({.node = 1, .capacity = 100}).ok());
  EXPECT_FALSE(StoreServer::create({.node = 1, .capacity = 1 << 20, .slots = 0}).ok());
  EXPECT_FALSE(StoreServer::create({.node = 1, .capacity = 1 << 20, .slots = kSlotLimitMax + 1}).ok());
  EXPECT_FALSE(server->add_client(process(1)).ok());
  server->client_died(process(77));
  server->lease(process(77), 1, {1, 1});
  EXPECT_TRUE(effects(*server).empty());
}

TEST(StoreServer, ABufferThatAHolderHasStaysAndGoesWithTheLastHold) {
  Hub hub({.node = 1, .capacity = 8 << 20, .slots = 1000});
  Member a(hub, 1);
  Pin pin = a.put_shared(1000, 6);
  BufferId id = pin.id();
  ProcessId remote{2, 5};
  EXPECT_TRUE(
      hub.with([&](StoreServer& s) { return s.hold(remote, id) && s.hold(remote, id) && s.hold(kDaemon, id); }));
  pin.reset();
  a.client->flush();
  EXPECT_EQ(hub.usage().objects, 1u);
  hub.with([&](StoreServer& s) {
    s.release(remote, id);
    s.release(kDaemon, id);
    s.release(kDaemon, id);
  });
  EXPECT_TRUE(hub.with([&](StoreServer& s) { return s.contains(id); })) << "held twice, released once";
  hub.with([&](StoreServer& s) { s.holders_of_node_gone(2); });
  EXPECT_EQ(hub.usage().objects, 0u);
  ASSERT_FALSE(hub.others.empty());
  EXPECT_EQ(std::get<ExportedFreed>(hub.others.back()).id, id);
  EXPECT_FALSE(hub.with([&](StoreServer& s) { return s.hold(remote, id); }));
  EXPECT_EQ(hub.audit(), "");
}

TEST(StoreServer, ADeadClientsBuffersLiveWhileOthersPinThem) {
  Hub hub({.node = 1, .capacity = 8 << 20, .slots = 1000});
  Member a(hub, 1), b(hub, 2), c(hub, 3);
  std::vector<Pin> made, seen;
  for (std::size_t size : {100ul, 200ul, 100000ul}) made.push_back(a.put_shared(size, 8));
  for (const Pin& p : made) seen.push_back(b.client->try_pin(p.id()));
  Pin unshared = a.put(300, 1), unshared_large = a.put(200000, 1);
  auto open = a.client->allocate(400), open_large = a.client->allocate(300000);
  Pin pinned_by_dead = a.client->try_pin(c.put_shared(77, 2).id());  // c dropped it: only a has it
  c.client->flush();
  EXPECT_EQ(hub.usage().objects, 6u);
  hub.with([&](StoreServer& s) {
    s.client_closing(a.id);
    s.client_died(a.id);
  });
  EXPECT_EQ(hub.audit(), "");
  EXPECT_EQ(hub.usage().objects, 3u) << "SS-3";
  for (const Pin& p : seen) EXPECT_TRUE(all_equal(p, 8));
  seen.clear();
  b.client->flush();
  EXPECT_EQ(hub.usage().used, 0u);
  c.client->trim();
  EXPECT_EQ(hub.usage().leased, 0u) << "the orphaned chunk went with its last buffer";
  EXPECT_EQ(hub.audit(), "");
}

TEST(StoreServer, FreshMemoryIsPopulatedAheadWhereTheNextBufferWillLie) {
  Hub hub({.node = 1, .capacity = 64 << 20, .slots = 1000});
  Member a(hub, 1);
  auto next = hub.with([](StoreServer& s) { return s.populate_ahead(16 << 20); });
  ASSERT_TRUE(next);
  EXPECT_EQ(*next, (Range{0, 16 << 20}));
  std::atomic<bool> stop{true};
  EXPECT_TRUE(hub.server->arena().populate(*next, &stop).ok());
  EXPECT_EQ(hub.usage().reserved, 0u) << "stopped before it began";
  EXPECT_TRUE(hub.server->arena().populate(*next).ok());
  EXPECT_EQ(hub.usage().reserved, 16u << 20);
  EXPECT_EQ(hub.with([](StoreServer& s) { return s.populate_ahead(16 << 20); }), std::nullopt);
  Pin pin = a.put(10 << 20, 1);
  next = hub.with([](StoreServer& s) { return s.populate_ahead(16 << 20); });
  ASSERT_TRUE(next);
  EXPECT_EQ(next->offset, 16u << 20);
}

TEST(StoreServer, AWaitingPutProceedsWhenAnotherClientDrops) {
  Hub hub({.node = 1, .capacity = 4 << 20, .slots = 1000});
  Member a(hub, 1), b(hub, 2);
  Pin first = a.put_shared(3 << 20, 1);
  std::thread waiter([&] {
    Pin second = b.put(3 << 20, 2);
    EXPECT_TRUE(all_equal(second, 2));
  });
  while (hub.usage().waiting == 0) std::this_thread::yield();
  first.reset();
  a.client->flush();
  waiter.join();
  EXPECT_EQ(hub.audit(), "");
}

// ---- pages: made on another thread, while the loop goes on

/// A server whose arena has no pages yet. No test here makes any: what the loop does needs none.
struct PagesTest : testing::Test {
  PagesTest() {
    server = std::move(*StoreServer::create({.node = 1,
                                             .capacity = 4ull << 30,
                                             .slots = 1000,
                                             .make_pages = [this](const UniqueFd&, const Mapping&, Range, bool) {
                                               ++made;
                                               return Status();
                                             }}));
    for (std::uint32_t serial : {1, 2}) EXPECT_TRUE(server->add_client(process(serial)).ok());
  }
  template <class E>
  E only() {
    auto got = effects(*server);
    EXPECT_EQ(got.size(), 1u);
    return std::get<E>(got.at(0));
  }
  int made = 0;
  std::unique_ptr<StoreServer> server;
};

TEST_F(PagesTest, ALargePutTouchesNothingOnTheLoop) {
  server->allocate(process(1), 1, 4ull << 30);
  const auto wanted = only<PagesWanted>();
  EXPECT_EQ(made, 0) << "the caller of allocate is the daemon's loop, which must answer pings meanwhile";
  EXPECT_EQ(wanted.range, (Range{0, 4ull << 30}));
  EXPECT_EQ(server->usage().waiting, 1u);
  EXPECT_TRUE(server->arena().reserve(wanted.range).ok());
  EXPECT_GE(made, 128) << "in steps, so that it can be stopped";
  server->pages_made(wanted.ticket, {});
  EXPECT_EQ(only<BufferGranted>().grant.range.size, 4ull << 30);
  EXPECT_EQ(server->audit(), "");
}

TEST_F(PagesTest, WhatHasItsRoomWaitsForItsOwnPagesOnly) {
  server->allocate(process(1), 1, 1ull << 30);
  server->allocate(process(2), 2, 1 << 20);
  server->lease(process(2), 3, {256 << 10, 16});
  auto got = effects(*server);
  ASSERT_EQ(got.size(), 3u);
  server->pages_made(std::get<PagesWanted>(got[2]).ticket, {});
  EXPECT_EQ(only<LeaseGranted>().token, 3u);
  server->pages_made(std::get<PagesWanted>(got[1]).ticket, {});
  EXPECT_EQ(only<BufferGranted>().token, 2u);
  server->pages_made(std::get<PagesWanted>(got[0]).ticket, {});
  EXPECT_EQ(only<BufferGranted>().token, 1u);
}

TEST_F(PagesTest, AMachineWithoutMemoryFailsTheRequestAndKeepsNothing) {
  server->allocate(process(1), 1, 1 << 30);
  server->lease(process(2), 2, {256 << 10, 16});
  auto begun = server->begin_copy({2, 5, 1}, 1 << 20);
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(begun->state, StoreServer::CopyTicket::State::kWaiting);
  EXPECT_EQ(server->begin_copy({2, 5, 1}, 1 << 20)->state, StoreServer::CopyTicket::State::kWaiting);
  auto got = effects(*server);
  ASSERT_EQ(got.size(), 3u);
  for (const auto& e : got) server->pages_made(std::get<PagesWanted>(e).ticket, ObjectStoreFullError("no memory"));
  got = effects(*server);
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(std::get<RequestFailed>(got[0]).token, 1u);
  EXPECT_EQ(std::get<RequestFailed>(got[1]).token, 2u);
  EXPECT_EQ(std::get<CopyFailed>(got[2]).remote, (BufferId{2, 5, 1}));
  EXPECT_EQ(server->usage().used, 0u);
  EXPECT_EQ(server->usage().leased, 0u);
  EXPECT_EQ(server->audit(), "");
}

TEST_F(PagesTest, ARequestThatIsGivenUpMeanwhileTakesNothing) {
  TimePoint start{100s};
  server->allocate(process(1), 1, 1 << 30);               // cancelled
  server->allocate(process(1), 2, 1 << 30, start + 5s);   // too late
  server->allocate(process(2), 3, 1 << 30);               // its client dies
  server->lease(process(2), 4, {256 << 10, 16});          // the same
  ASSERT_TRUE(server->begin_copy({2, 5, 1}, 1 << 20).ok());  // aborted
  auto wanted = effects(*server);
  ASSERT_EQ(wanted.size(), 5u);
  EXPECT_TRUE(server->cancel_request(process(1), 1));
  EXPECT_FALSE(server->cancel_request(process(1), 1));
  EXPECT_EQ(server->next_deadline(), start + 5s);
  server->expire(start + 5s);
  server->client_died(process(2));
  server->abort_copy({2, 5, 1});
  int unwanted = 0, failed = 0;
  for (const auto& e : effects(*server)) {
    unwanted += std::holds_alternative<PagesUnwanted>(e);
    failed += std::holds_alternative<RequestFailed>(e);
  }
  EXPECT_EQ(unwanted, 5);
  EXPECT_EQ(failed, 1) << "the one that was too late";
  for (const auto& e : wanted) server->pages_made(std::get<PagesWanted>(e).ticket, {});
  EXPECT_TRUE(effects(*server).empty());
  EXPECT_EQ(server->usage().used, 0u);
  EXPECT_EQ(server->audit(), "");
}

TEST(Arena, ReservingStopsBetweenSteps) {
  std::atomic<bool> stop{false};
  int made = 0;
  auto arena = Arena::create({.capacity = 256 << 20,
                              .available = [] { return ~std::uint64_t(0); },
                              .make_pages = [&](const UniqueFd&, const Mapping&, Range, bool) {
                                stop = ++made == 2;
                                return Status();
                              }});
  ASSERT_TRUE(arena.ok());
  EXPECT_TRUE((*arena)->reserve({0, 256 << 20}, &stop).ok());
  EXPECT_EQ(made, 2);
}

TEST(Arena, MemoryThatTheMachineDoesNotHaveIsATypedError) {
  static std::uint64_t available;
  available = 20 << 20;
  auto arena = Arena::create({.capacity = 64 << 20, .keep_free = 8 << 20, .available = [] { return available; }});
  ASSERT_TRUE(arena.ok());
  EXPECT_TRUE((*arena)->reserve({0, 12 << 20}).ok());
  EXPECT_TRUE((*arena)->is_reserved({0, 12 << 20}));
  Status refused = (*arena)->reserve({16 << 20, 14 << 20});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kObjectStoreFull);
  available = 4 << 20;
  EXPECT_FALSE((*arena)->populate({32 << 20, 4096}).ok());
  EXPECT_TRUE((*arena)->reserve({0, 12 << 20}).ok()) << "what it has it keeps";
  EXPECT_TRUE((*arena)->populate({0, 12 << 20}).ok());
  EXPECT_EQ((*arena)->reserved(), 12u << 20);
}

}  // namespace
}  // namespace troupe::store::test
