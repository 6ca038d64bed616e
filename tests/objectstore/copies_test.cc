// Promises of server.h on copies of buffers of other nodes.
#include <gtest/gtest.h>

#include "support.h"

namespace troupe::store::test {
namespace {

using State = StoreServer::CopyTicket::State;

struct CopiesTest : testing::Test {
  CopiesTest() : hub({.node = 1, .capacity = 1 << 20, .slots = 100, .populate = true}), a(hub, 1) {}
  StoreServer& server() { return *hub.server; }
  BufferId remote(std::uint32_t slot) { return {2, slot, 1}; }
  BufferId copy(std::uint32_t slot, std::uint64_t size) {
    auto ticket = server().begin_copy(remote(slot), size);
    EXPECT_TRUE(ticket.ok() && ticket->state == State::kStarted);
    std::memset(ticket->bytes.data(), int(slot), ticket->bytes.size());
    auto local = server().finish_copy(remote(slot));
    EXPECT_TRUE(local.ok());
    return *local;
  }
  Hub hub;
  Member a;
};

TEST_F(CopiesTest, RequestsForOneBufferShareOneCopy) {
  auto first = server().begin_copy(remote(7), 5000);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->state, State::kStarted);
  EXPECT_EQ(first->bytes.size(), 5000u);
  auto second = server().begin_copy(remote(7), 5000);
  EXPECT_EQ(second->state, State::kShared);
  EXPECT_EQ(second->local, first->local);
  EXPECT_FALSE(a.client->try_pin(first->local)) << "not visible while it is being filled";
  EXPECT_EQ(server().find_copy(remote(7)), std::nullopt);
  std::memset(first->bytes.data(), 7, 5000);
  auto local = server().finish_copy(remote(7));
  ASSERT_TRUE(local.ok());
  Pin pin = a.client->try_pin(*local);
  ASSERT_TRUE(pin);
  EXPECT_TRUE(all_equal(pin, 7));
  EXPECT_EQ(server().begin_copy(remote(7), 5000)->state, State::kPresent);
  EXPECT_EQ(server().find_copy(remote(7)), *local);
  EXPECT_FALSE(server().finish_copy(remote(7)).ok());
}

TEST_F(CopiesTest, AnUnpinnedCopyStaysUntilRoomIsNeededLeastRecentlyUsedFirst) {
  copy(1, 300 << 10);
  copy(2, 300 << 10);
  BufferId third = copy(3, 300 << 10);
  Pin pin = a.client->try_pin(third);
  EXPECT_TRUE(server().find_copy(remote(1)));  // a use
  Pin made = a.put(300 << 10, 9);
  EXPECT_TRUE(server().find_copy(remote(1)));
  EXPECT_FALSE(server().find_copy(remote(2))) << "the least recently used one went";
  Pin more = a.put(300 << 10, 9);
  EXPECT_FALSE(server().find_copy(remote(1)));
  EXPECT_TRUE(server().find_copy(remote(3))) << "pinned";
  EXPECT_TRUE(all_equal(pin, 3));
  EXPECT_EQ(hub.usage().objects, 3u);
  EXPECT_EQ(hub.audit(), "");
}

TEST_F(CopiesTest, ACopyWhoseOriginIsGoneGoesWithItsLastPin) {
  BufferId one = copy(1, 1000), two = copy(2, 1000);
  server().origin_gone(remote(2));
  EXPECT_FALSE(a.client->try_pin(two)) << "nobody had it: gone at once";
  Pin pin = a.client->try_pin(one);
  server().origin_gone(remote(1));
  EXPECT_FALSE(server().find_copy(remote(1)));
  EXPECT_TRUE(all_equal(pin, 1));
  BufferId again = copy(1, 1000);  // a new copy beside the old one
  EXPECT_NE(again, one);
  pin.reset();
  a.client->flush();
  EXPECT_FALSE(a.client->try_pin(one));
  EXPECT_TRUE(a.client->try_pin(again));
  EXPECT_EQ(hub.usage().objects, 1u);
}

TEST_F(CopiesTest, ACopyWithoutRoomWaitsAndIsGrantedLater) {
  Pin made = a.put(900 << 10, 1);
  auto ticket = server().begin_copy(remote(1), 500 << 10);
  EXPECT_EQ(ticket->state, State::kWaiting);
  EXPECT_EQ(server().begin_copy(remote(1), 500 << 10)->state, State::kWaiting);
  EXPECT_FALSE(server().begin_copy(remote(2), 2 << 20).ok());
  made.reset();
  a.client->flush();
  bool granted = false;
  for (const auto& e : hub.others) {
    if (auto* g = std::get_if<CopyGranted>(&e)) granted = g->remote == remote(1) && g->bytes.size() == 500 << 10;
  }
  EXPECT_TRUE(granted);
  server().abort_copy(remote(1));
  EXPECT_EQ(hub.usage().used, 0u);
  EXPECT_EQ(hub.audit(), "");
}

TEST_F(CopiesTest, AHeldCopyIsNotEvicted) {
  BufferId local = copy(1, 600 << 10);
  EXPECT_TRUE(server().hold(kDaemon, local));
  auto ticket = server().begin_copy(remote(2), 600 << 10);
  EXPECT_EQ(ticket->state, State::kWaiting);
  server().release(kDaemon, local);
  EXPECT_TRUE(server().find_copy(remote(1)) == std::nullopt) << "released: it made room for the one that waited";
  EXPECT_EQ(hub.audit(), "");
}

// SS-6: nobody is left who could say that the object is unwanted.
TEST_F(CopiesTest, CopiesOfANodeThatIsGoneGoWithTheirLastPin) {
  BufferId pinned = copy(1, 1000), unpinned = copy(2, 1000);
  auto other = server().begin_copy({3, 9, 1}, 1000);
  ASSERT_EQ(other->state, State::kStarted);
  ASSERT_TRUE(server().finish_copy({3, 9, 1}).ok());
  ASSERT_EQ(server().begin_copy(remote(4), 1000)->state, State::kStarted);
  Pin pin = a.client->try_pin(pinned);
  server().origin_node_gone(2);
  EXPECT_FALSE(a.client->try_pin(unpinned));
  EXPECT_TRUE(all_equal(pin, 1));
  EXPECT_TRUE(server().find_copy({3, 9, 1})) << "of a node that lives";
  auto late = server().finish_copy(remote(4));  // its bytes had all come
  ASSERT_TRUE(late.ok());
  EXPECT_FALSE(server().find_copy(remote(4)));
  EXPECT_TRUE(server().hold(kDaemon, *late));
  server().release(kDaemon, *late);
  pin.reset();
  a.client->flush();
  EXPECT_EQ(hub.usage().objects, 1u);
  EXPECT_EQ(hub.audit(), "");
}

// SS-6, REVIEW H.8: a copy that waited for room, or that was asked for later, came from a third node and stayed for
// good.
TEST_F(CopiesTest, CopiesOfANodeThatIsGoneAreNotKeptWhenTheyAreMadeLater) {
  const BufferId filler = copy(9, 1 << 20);
  ASSERT_TRUE(server().hold(kDaemon, filler));
  ASSERT_EQ(server().begin_copy(remote(1), 1 << 20)->state, State::kWaiting);
  server().origin_node_gone(2);
  server().release(kDaemon, filler);  // the first is granted
  for (std::uint32_t n : {1u, 2u}) {
    if (n == 2) { ASSERT_EQ(server().begin_copy(remote(n), 1000)->state, State::kStarted); }
    auto local = server().finish_copy(remote(n));
    ASSERT_TRUE(local.ok());
    EXPECT_TRUE(server().hold(kDaemon, *local)) << "whoever asked for it has time to pin it";
    server().release(kDaemon, *local);
    EXPECT_EQ(hub.usage().objects, 0u);
  }
  EXPECT_EQ(hub.audit(), "");
}

TEST_F(CopiesTest, OwnBuffersAreNotCopied) {
  EXPECT_FALSE(server().begin_copy({1, 3, 1}, 10).ok());
  EXPECT_FALSE(server().begin_copy({}, 10).ok());
}

}  // namespace
}  // namespace troupe::store::test
