// Promises DB-1 to DB-3.
#include "core/net/endpoint/doorbell.h"

#include <random>
#include <set>

#include "tests/net/net_fixture.h"

namespace troupe::net::testing {
namespace {

using Rang = PeerDoorbell::Rang;

struct Bell : ::testing::Test {
  Doorbell own = std::move(Doorbell::create()).value();
  PeerDoorbell peer = seen_by_a_peer();
  PeerDoorbell seen_by_a_peer() {
    return std::move(PeerDoorbell::open(own.fd(), UniqueFd(::dup(own.event_fd())))).value();
  }
  std::uint64_t event_count() {
    std::uint64_t count = 0;
    return ::read(own.event_fd(), &count, sizeof(count)) > 0 ? count : 0;
  }
  std::set<std::uint32_t> collect(std::uint32_t keep = kNoSlot) {
    SlotSet slots;
    own.listen_collect(slots, keep);
    std::set<std::uint32_t> all;
    while (!slots.empty()) {
      all.insert(slots.next(0));
      slots.remove(slots.next(0));
    }
    return all;
  }
};

TEST_F(Bell, AnAwakeOwnerCostsARingerNothing) {
  own.set_mode(ListenMode::kAwake);
  const auto events = own.events();
  EXPECT_EQ(peer.ring(5), Rang::kNo);
  EXPECT_EQ(own.events(), events);
  EXPECT_EQ(event_count(), 0u);
  EXPECT_EQ(collect(), (std::set<std::uint32_t>{5}));
}

TEST_F(Bell, ASleepingOwnerIsRungOnceAnEpochByEachRinger) {
  PeerDoorbell other = seen_by_a_peer();
  own.set_mode(ListenMode::kAsleep);
  const auto events = own.events();
  EXPECT_EQ(peer.ring(1), Rang::kFutex);
  EXPECT_EQ(peer.ring(1), Rang::kNo);
  EXPECT_EQ(other.ring(2), Rang::kFutex) << "each ringer for itself: another may have died between its steps";
  EXPECT_EQ(own.events(), events + 2);
  own.set_mode(ListenMode::kAwake);
  own.set_mode(ListenMode::kAsleep);
  EXPECT_EQ(peer.ring(1), Rang::kFutex) << "a new sleep is a new epoch";
}

TEST_F(Bell, NobodyListeningMeansTheServiceThreadIsRungOnce) {
  EXPECT_EQ(own.mode(), ListenMode::kUnheld);
  EXPECT_EQ(peer.ring(1), Rang::kEvent);
  EXPECT_EQ(peer.ring(1), Rang::kNo);
  EXPECT_EQ(event_count(), 1u);
}

TEST_F(Bell, RingAlwaysWakesWhateverThePageSays) {
  own.set_mode(ListenMode::kAwake);
  const auto events = own.events();
  peer.ring_always();
  EXPECT_EQ(own.events(), events + 1);
  EXPECT_EQ(event_count(), 1u);
}

TEST_F(Bell, EveryBitOfTheTwoLevelsIsFoundOnce) {
  std::set<std::uint32_t> rung;
  std::mt19937 random(3);
  for (int i = 0; i < 700; ++i) rung.insert(random() % kReadyBits);
  rung.insert({0, 63, 64, kReadyBits - 1});
  for (std::uint32_t slot : rung) peer.ring(slot);
  EXPECT_TRUE(own.listen_any(kNoSlot));
  EXPECT_EQ(collect(), rung);
  EXPECT_FALSE(own.listen_any(kNoSlot));
  EXPECT_TRUE(collect().empty());
}

TEST_F(Bell, TheKeptBitStaysAndHidesNoOther) {
  own.listen_set(70);
  EXPECT_FALSE(own.listen_any(70));
  peer.ring(70);
  EXPECT_TRUE(collect(70).empty());
  peer.ring(71);  // same word: its summary bit is set already
  peer.ring(500);
  EXPECT_TRUE(own.listen_any(70));
  EXPECT_EQ(collect(70), (std::set<std::uint32_t>{71, 500}));
  EXPECT_EQ(collect(), (std::set<std::uint32_t>{70})) << "still set, for those who look whether they must set it";
}

TEST_F(Bell, AWakeBeforeTheSleepIsNotLost) {
  const auto seen = own.events();
  peer.ring_always();
  own.listen_sleep(seen, in(kPatience));  // returns at once or the test hangs for a minute
  SUCCEED();
}

TEST_F(Bell, RefusesWhatIsNoDoorbell) {
  EXPECT_FALSE(PeerDoorbell::open(-1, UniqueFd(::dup(own.event_fd()))).ok());
  EXPECT_FALSE(PeerDoorbell::open(own.fd(), UniqueFd()).ok());
  EXPECT_FALSE(PeerDoorbell::open(own.fd(), UniqueFd(::eventfd(0, EFD_CLOEXEC))).ok()) << "it could block us";
  UniqueFd larger = std::move(create_shared("x", 8192)).value();
  EXPECT_FALSE(PeerDoorbell::open(larger.get(), UniqueFd(::dup(own.event_fd()))).ok());
}

TEST(SlotSet, NextGoesRound) {
  SlotSet slots;
  for (std::uint32_t slot : {3u, 64u, 4095u}) slots.add(slot);
  EXPECT_EQ(slots.next(0), 3u);
  EXPECT_EQ(slots.next(4), 64u);
  EXPECT_EQ(slots.next(65), 4095u);
  slots.remove(4095);
  EXPECT_EQ(slots.next(65), 3u);
  EXPECT_EQ(slots.next(4095), 3u);
  slots.remove(3);
  slots.remove(64);
  EXPECT_TRUE(slots.empty());
}

}  // namespace
}  // namespace troupe::net::testing
