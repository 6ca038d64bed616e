// HandOvers: who is passed on, who waits, who is closed (HOV-1 to HOV-3).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/node/daemon/peers/hand_overs.h"

namespace troupe::node {
namespace {

using namespace std::chrono_literals;

constexpr ProcessId kWorker{1, 5}, kOther{1, 6};
const HandOvers::TimePoint kStart{100s};

net::PairKey key_of(std::uint8_t seed) {
  net::PairKey key;
  key.fill(seed);
  return key;
}
net::Introduction from_rank(int from, std::uint8_t key, std::uint64_t epoch = 1, std::uint16_t channel = 0) {
  return net::introduce({.group = 9, .epoch = epoch, .from = from, .to = 0, .channel = channel}, key_of(key)).value();
}
wire::ExpectRanks ranks(std::vector<wire::ExpectedRank> from, std::uint64_t epoch = 1) {
  return {9, epoch, "dp", 0, std::move(from)};
}

/// One end of a pipe; the other says whether it was closed.
struct Connection {
  Connection() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
    watch = UniqueFd(fds[0]);
    fd = UniqueFd(fds[1]);
  }
  bool closed() const {
    char byte;
    return ::read(watch.get(), &byte, 1) == 0;
  }
  UniqueFd watch, fd;
};

TEST(HandOvers, HOV1_PassesOnWhoIsExpectedAndUsesTheKeyUp) {
  HandOvers door;
  EXPECT_TRUE(door.expect(kWorker, ranks({{1, 0, key_of('a')}})).empty());
  Connection first, second;
  const auto passed = door.arrive(from_rank(1, 'a'), std::move(first.fd), kStart);
  ASSERT_TRUE(passed);
  EXPECT_EQ(passed->to, kWorker);
  EXPECT_EQ(passed->what.from, 1);
  EXPECT_EQ(passed->what.group, 9u);
  EXPECT_FALSE(first.closed());
  EXPECT_FALSE(door.arrive(from_rank(1, 'a'), std::move(second.fd), kStart));  // nobody expects it a second time
  door.expire(kStart + HandOvers::kEarlyWait);
  EXPECT_TRUE(second.closed());
}

TEST(HandOvers, HOV1_ClosesAWrongKeyAndAnotherEpochAndStillExpectsTheRightOne) {
  HandOvers door;
  door.expect(kWorker, ranks({{1, 0, key_of('a')}, {2, 0, key_of('b')}}));
  Connection wrong, old, other, right;
  EXPECT_FALSE(door.arrive(from_rank(1, 'x'), std::move(wrong.fd), kStart));
  EXPECT_FALSE(door.arrive(from_rank(1, 'a', 2), std::move(old.fd), kStart));
  EXPECT_FALSE(door.arrive(from_rank(2, 'a'), std::move(other.fd), kStart));  // rank 1's key does not make it rank 2
  EXPECT_TRUE(wrong.closed() && old.closed() && other.closed());
  const auto refusals = door.take_refusals();
  ASSERT_EQ(refusals.size(), 3u);
  EXPECT_NE(refusals[0].find("rank 1 to rank 0"), std::string::npos);
  EXPECT_NE(refusals[0].find("'dp'"), std::string::npos);
  EXPECT_TRUE(door.arrive(from_rank(1, 'a'), std::move(right.fd), kStart));
}

TEST(HandOvers, WhoComesEarlyIsPassedOnLater) {
  HandOvers door;
  Connection data, control, liar;
  EXPECT_FALSE(door.arrive(from_rank(1, 'a'), std::move(data.fd), kStart));
  EXPECT_FALSE(door.arrive(from_rank(1, 'b', 1, 1), std::move(control.fd), kStart));
  EXPECT_FALSE(door.arrive(from_rank(2, 'z'), std::move(liar.fd), kStart));
  EXPECT_EQ(door.door().early, 3u);
  const auto passed = door.expect(kWorker, ranks({{1, 0, key_of('a')}, {1, 1, key_of('b')}, {2, 0, key_of('c')}}));
  EXPECT_EQ(passed.size(), 2u);
  EXPECT_TRUE(liar.closed());
  EXPECT_FALSE(data.closed() || control.closed());
  EXPECT_EQ(door.door().early, 0u);
  EXPECT_EQ(door.door().expected, 1u);
}

// At f0736ec whoever came often enough displaced every rank that waited.
TEST(HandOvers, HOV2_OneSourceCannotDisplaceWhatWaitsFromAnother) {
  constexpr net::Source kRanks{0, 0, 0, 0, 10, 0, 0, 1}, kStrangers{0, 0, 0, 0, 10, 0, 0, 2};
  HandOvers door(8);
  Connection data, control;
  EXPECT_FALSE(door.arrive(from_rank(1, 'a'), std::move(data.fd), kStart, kRanks));
  EXPECT_FALSE(door.arrive(from_rank(1, 'b', 1, 1), std::move(control.fd), kStart, kRanks));
  std::vector<Connection> strangers(50);
  for (std::size_t i = 0; i < strangers.size(); ++i)
    door.arrive(from_rank(int(i) + 2, 'x'), std::move(strangers[i].fd), kStart, kStrangers);
  EXPECT_EQ(door.door().early, 8u);
  EXPECT_FALSE(data.closed() || control.closed());
  EXPECT_TRUE(strangers[0].closed());
  EXPECT_EQ(door.expect(kWorker, ranks({{1, 0, key_of('a')}, {1, 1, key_of('b')}})).size(), 2u);
}

TEST(HandOvers, TheRankThatDialledIsToldTheProofOfItsOwnIntroduction) {
  HandOvers door;
  door.expect(kWorker, ranks({{1, 0, key_of('a')}}));
  Connection one;
  const net::Introduction who = from_rank(1, 'a');
  const auto passed = door.arrive(who, std::move(one.fd), kStart);
  ASSERT_TRUE(passed);
  EXPECT_TRUE(net::same_proof(passed->acceptance, net::acceptance(who, key_of('a'))));
}

TEST(HandOvers, HOV2_WaitersAreBoundedInNumberAndTime) {
  HandOvers door;
  std::vector<Connection> all(HandOvers::kEarlyMax + 1);
  for (std::size_t i = 0; i < all.size(); ++i)
    door.arrive(from_rank(int(i) + 1, 'a'), std::move(all[i].fd), kStart + std::chrono::milliseconds(i));
  EXPECT_EQ(door.door().early, HandOvers::kEarlyMax);
  EXPECT_TRUE(all[0].closed());
  EXPECT_FALSE(all[1].closed());
  ASSERT_EQ(door.next_deadline(), kStart + 1ms + HandOvers::kEarlyWait);
  door.expire(*door.next_deadline());
  EXPECT_TRUE(all[1].closed());
  EXPECT_FALSE(all[2].closed());
  door.expire(kStart + 1h);
  EXPECT_EQ(door.door().early, 0u);
  EXPECT_FALSE(door.next_deadline());
}

TEST(HandOvers, HOV3_NothingIsExpectedForWhoIsGone) {
  HandOvers door;
  door.expect(kWorker, ranks({{1, 0, key_of('a')}, {1, 1, key_of('b')}}));
  door.expect(kOther, {10, 1, "other", 3, {{4, 0, key_of('c')}}});
  door.left(kOther, {9, 0});  // it never said that
  EXPECT_EQ(door.door().expected, 3u);
  door.left(kWorker, {9, 0});
  EXPECT_EQ(door.door().expected, 1u);
  door.process_died(kOther);
  EXPECT_EQ(door.door().expected, 0u);
}

}  // namespace
}  // namespace troupe::node
