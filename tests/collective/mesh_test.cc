// Sockets between ranks: who proves what, and what a stranger, a thief of a port or an echo gets.
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collective/tcp/mesh.h"
#include "tests/base/few_descriptors.h"

namespace troupe::collective {
namespace {

constexpr std::uint64_t kKey = 0x1122334455667788;
constexpr std::size_t kHello = 32, kWelcome = 48, kAnswer = 32;  // bytes of the messages

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(30); }

using Meeting = Result<std::shared_ptr<TcpLinks>>;

TEST(MeshTest, RanksWithTheSameKeyMeet) {
  std::vector<MeshListener> listeners;
  std::vector<MeshAddress> addresses;
  for (int r = 0; r < 4; ++r)
    addresses.push_back(listeners.emplace_back(MeshListener::open("127.0.0.1").value()).address());
  std::vector<std::thread> ranks;
  std::vector<std::shared_ptr<TcpLinks>> links(4);
  for (int r = 0; r < 4; ++r)
    ranks.emplace_back([&, r] {
      links[std::size_t(r)] =
          connect_mesh({r, 4, 1}, std::move(listeners[std::size_t(r)]), addresses, kKey, soon()).value();
    });
  for (auto& rank : ranks) rank.join();
  for (const auto& one : links)
    for (int peer = 0; peer < 4; ++peer) EXPECT_EQ(one->data(peer) >= 0, peer != one->rank());
  for (const auto& one : links) one->leave();
}

/// Rank 1 dials what it takes for rank 0; `listener` answers as it likes.
Meeting dial_impostor(const std::function<void(int fd)>& listener) {
  MeshListener impostor = MeshListener::open("127.0.0.1").value();
  std::thread thread([&] {
    const UniqueFd one(::accept4(impostor.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    pollfd ready{impostor.fd(), POLLIN, 0};
    if (one) return listener(one.get());
    (void)::poll(&ready, 1, 30'000);
    const UniqueFd later(::accept4(impostor.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    listener(later.get());
  });
  Meeting met =
      connect_mesh({1, 2, 1}, MeshListener::open("127.0.0.1").value(), {impostor.address(), {}}, kKey, soon());
  thread.join();
  return met;
}

// TM-1: whoever took over the port of a rank is refused, and learns no proof.
TEST(MeshTest, AListenerWithoutTheKeyIsRefusedAndLearnsNothing) {
  std::size_t learned = 99;
  std::array<char, kHello + kAnswer> heard{};
  const Meeting met = dial_impostor([&](int fd) {
    ASSERT_TRUE(receive_whole(fd, heard.data(), kHello, soon()));
    const std::array<char, kWelcome> made_up{};
    ASSERT_TRUE(send_whole(fd, made_up.data(), made_up.size(), soon()));
    learned = 0;
    while (learned < kAnswer && receive_whole(fd, heard.data() + kHello + learned, 1, soon())) ++learned;
  });
  ASSERT_FALSE(met.ok());
  EXPECT_NE(std::string(met.error().what()).find("does not know the group's key"), std::string::npos)
      << met.error().what();
  EXPECT_EQ(learned, 0u);
  EXPECT_EQ(std::string(heard.data(), kHello).find(std::string(reinterpret_cast<const char*>(&kKey), sizeof kKey)),
            std::string::npos)
      << "the key does not travel";
}

// TM-1: the dialler's own words, sent back, prove nothing.
TEST(MeshTest, AnEchoIsRefused) {
  const Meeting met = dial_impostor([&](int fd) {
    std::array<char, kWelcome> echo{};
    ASSERT_TRUE(receive_whole(fd, echo.data(), kHello, soon()));
    ASSERT_TRUE(send_whole(fd, echo.data(), echo.size(), soon()));
    (void)receive_whole(fd, echo.data(), 1, soon());
  });
  EXPECT_FALSE(met.ok());
}

// TM-4: a rank that fails by itself hangs up as well, and one that is slow says nothing.
TEST(MeshTest, TM4_WhoHangsUpOrDoesNotAnswerIsNotCalledDead) {
  const auto expect_rank_0 = [](const Meeting& met, Reason reason) {
    ASSERT_FALSE(met.ok());
    const auto* told = dynamic_cast<const CollectiveError*>(&met.error());
    ASSERT_NE(told, nullptr) << met.error().what();
    EXPECT_EQ(told->reason(), reason) << told->what();
    EXPECT_EQ(told->missing_ranks(), std::vector<int>{0}) << told->what();
  };
  expect_rank_0(dial_impostor([](int) {}), Reason::kBackend);
  const MeshListener silent = MeshListener::open("127.0.0.1").value();
  expect_rank_0(connect_mesh({1, 2, 1}, MeshListener::open("127.0.0.1").value(), {silent.address(), {}}, kKey,
                             Clock::now() + std::chrono::milliseconds(200)),
                Reason::kTimeout);
}

TEST(MeshTest, WhoHasNoDescriptorForASocketBlamesNobodyElse) {
  if (kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs descriptors";
  MeshListener listener = MeshListener::open("127.0.0.1").value();
  const std::string address = listener.address().text;
  const FewDescriptors none(0);
  const auto made = dial(address, soon());
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().code(), ErrorCode::kCollective) << "which would say that it is not reached";
  EXPECT_NE(made.error().message().find("no socket"), std::string::npos) << made.error().message();
}

// TM-1: who dials without the key is closed, also with a proof that somebody else's connection needed; the rank that
// comes is taken.
TEST(MeshTest, ADiallerWithoutTheKeyIsClosedAndTheRankIsTaken) {
  MeshListener listener = MeshListener::open("127.0.0.1").value();
  const std::string address = listener.address().text;
  std::vector<MeshAddress> addresses{listener.address(), {}};
  Meeting zero = NotFoundError("not yet");
  std::thread rank([&, listener = std::move(listener)]() mutable {
    zero = connect_mesh({0, 2, 1}, std::move(listener), addresses, kKey, soon());
  });
  std::array<char, kHello> hello{};
  {
    const UniqueFd stranger = dial(address, soon()).value();  // a right hello: its answer is what is lacking
    const std::uint32_t magic = 0x324d5254;
    const std::int32_t from = 1, to = 0;
    std::memcpy(hello.data(), &magic, 4);
    std::memcpy(hello.data() + 4, &from, 4);
    std::memcpy(hello.data() + 8, &to, 4);
    std::array<char, kWelcome> welcome{};
    ASSERT_TRUE(send_whole(stranger.get(), hello.data(), hello.size(), soon()));
    ASSERT_TRUE(receive_whole(stranger.get(), welcome.data(), welcome.size(), soon()));
    // the listener's own proof, reflected
    ASSERT_TRUE(send_whole(stranger.get(), welcome.data() + 16, kAnswer, soon()));
    char closed = 0;
    EXPECT_FALSE(receive_whole(stranger.get(), &closed, 1, soon()));
  }
  const Meeting one = connect_mesh({1, 2, 1}, MeshListener::open("127.0.0.1").value(), addresses, kKey, soon());
  rank.join();
  ASSERT_TRUE(zero.ok() && one.ok());
  EXPECT_GE((*zero)->data(1), 0);
  (*one)->leave();
  (*zero)->leave();
}

// TM-3: at f0736ec each of them was waited for in turn, a second long.
TEST(MeshTest, SilentStrangersDelayNoRank) {
  MeshListener listener = MeshListener::open("127.0.0.1").value();
  const std::string address = listener.address().text;
  std::vector<MeshAddress> addresses{listener.address(), {}};
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(dial(address, soon()).value());
  const std::uint32_t magic = 0x324d5254;
  for (int i = 0; i < 20; ++i)  // these begin like a rank
    ASSERT_TRUE(send_whole(strangers[std::size_t(i)].get(), &magic, sizeof magic, soon()));
  Meeting zero = NotFoundError("not yet");
  std::thread rank([&, listener = std::move(listener)]() mutable {
    zero = connect_mesh({0, 2, 1}, std::move(listener), addresses, kKey, soon());
  });
  const Meeting one = connect_mesh({1, 2, 1}, MeshListener::open("127.0.0.1").value(), addresses, kKey, soon());
  rank.join();
  ASSERT_TRUE(zero.ok()) << zero.error().what();
  ASSERT_TRUE(one.ok()) << one.error().what();
  (*one)->leave();
  (*zero)->leave();
}

// TM-1, from both sides: of two groups on one port nobody takes the other's rank.
TEST(MeshTest, AnotherGroupsRankIsNotTakenAndTheRightOneIs) {
  MeshListener listener = MeshListener::open("127.0.0.1").value();
  std::vector<MeshAddress> addresses{listener.address(), {}};
  Meeting zero = NotFoundError("not yet");
  std::thread rank([&, listener = std::move(listener)]() mutable {
    zero = connect_mesh({0, 2, 1}, std::move(listener), addresses, kKey, soon());
  });
  const Meeting other = connect_mesh({1, 2, 1}, MeshListener::open("127.0.0.1").value(), addresses, kKey + 1, soon());
  EXPECT_FALSE(other.ok());
  const Meeting one = connect_mesh({1, 2, 1}, MeshListener::open("127.0.0.1").value(), addresses, kKey, soon());
  rank.join();
  ASSERT_TRUE(zero.ok() && one.ok());
  (*one)->leave();
  (*zero)->leave();
}

}  // namespace
}  // namespace troupe::collective
