// What TcpLinks makes of peers whose connections end: who is named, and when (TL-2, TL-3), and of what comes unproven
// (TL-5). Far ends are plain sockets.
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collective/tcp/links.h"
#include "tests/base/few_descriptors.h"

namespace troupe::collective {
namespace {

using std::chrono::hours, std::chrono::milliseconds, std::chrono::seconds;

/// The near end of a pair; the far end is the peer's.
UniqueFd near_end(UniqueFd& far) {
  int fds[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  far = UniqueFd(fds[0]);
  return UniqueFd(fds[1]);
}

/// Rank 0 and the far ends of its control sockets, by rank.
struct Links {
  Links(std::vector<int> nodes, milliseconds grace)
      : own(TcpLinks::create({.rank = 0, .ranks = int(nodes.size()), .epoch = 1, .grace = grace})),
        far(nodes.size()) {
    for (std::size_t r = 1; r < nodes.size(); ++r) {
      int fds[2] = {-1, -1};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
      far[r] = UniqueFd(fds[0]);
      own->arrive(int(r), Channel::kControl, UniqueFd(fds[1]));
    }
    own->know_nodes(std::move(nodes));
    own->on_failure([told = told](const Failure& failure) { told->set_value(failure); });
  }
  /// The limit only ends a broken run.
  std::vector<int> named() {
    auto future = told->get_future();
    if (future.wait_for(seconds(60)) != std::future_status::ready) return {-1};
    const Failure failure = future.get();
    EXPECT_EQ(failure.reason, Reason::kDied);
    return failure.missing_ranks;
  }
  std::shared_ptr<std::promise<Failure>> told = std::make_shared<std::promise<Failure>>();
  std::shared_ptr<TcpLinks> own;
  std::vector<UniqueFd> far;
};

// TL-3: the first end waits for the second, however long that takes.
TEST(LinksTest, PeersOfANodeThatEndTogetherAreNamedTogether) {
  Links links({0, 1, 2, 1}, hours(1));
  links.far[3].reset();
  links.far[1].reset();
  EXPECT_EQ(links.named(), (std::vector{1, 3}));
}

// BL-1: a rank that was through before anybody told that it waits says so when it hears that, also over a socket that
// comes later.
TEST(LinksTest, WhoIsThroughAnswersWhoWaits) {
  for (const bool connected_late : {false, true}) {
    const auto one = TcpLinks::create({.rank = 0, .ranks = 3}), other = TcpLinks::create({.rank = 1, .ranks = 3});
    int fds[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    const auto connect = [&] {
      one->arrive(1, Channel::kControl, UniqueFd(fds[0]));
      other->arrive(0, Channel::kControl, UniqueFd(fds[1]));
    };
    if (!connected_late) connect();
    one->working_on({1, {}});
    one->is_through();
    other->working_on({1, {}});
    EXPECT_EQ(other->to_blame(1, {2}), (std::vector{0, 2})) << "nothing was heard of either";
    other->tell_progress({2});
    if (connected_late) connect();
    const auto limit = std::chrono::steady_clock::now() + seconds(60);
    while (other->to_blame(1, {2}) != std::vector{2} && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(other->to_blame(1, {2}), std::vector{2}) << connected_late;
    one->leave();
    other->leave();
  }
}

// TL-3: nothing is said of those that live.
TEST(LinksTest, OneThatEndsAloneIsNamedAloneWhenTheMomentIsOver) {
  Links links({0, 1, 2, 1}, milliseconds(1));
  links.far[3].reset();
  EXPECT_EQ(links.named(), std::vector{3});
}

// TL-3: for whom nobody could follow, nobody waits.
TEST(LinksTest, ALonePeerAndOneOfTheOwnNodeAreNamedAtOnce) {
  Links lone({0, 1, 2, 1}, hours(1));
  lone.far[2].reset();
  EXPECT_EQ(lone.named(), std::vector{2});
  Links own({0, 0, 1, 0}, hours(1));
  own.far[1].reset();
  EXPECT_EQ(own.named(), std::vector{1});
}

// TL-2, TL-3: who says goodbye is no dead, and nobody waits for it any more.
TEST(LinksTest, AGoodbyeEndsTheWaitAndIsNoDeath) {
  Links links({0, 1, 2, 1}, hours(1));
  auto leaver = TcpLinks::create({.rank = 1, .ranks = 4, .epoch = 1});
  leaver->arrive(0, Channel::kControl, std::move(links.far[1]));
  links.far[3].reset();
  leaver.reset();
  EXPECT_EQ(links.named(), std::vector{3});
}

// TL-3: the data socket ends first.
TEST(LinksTest, TheEndOfADataSocketIsWaitedWithAsWell) {
  Links links({0, 1, 2, 1}, hours(1));
  links.own->data_ended(3);
  EXPECT_FALSE(links.own->has_failed());
  links.far[3].reset();
  links.far[1].reset();
  EXPECT_EQ(links.named(), (std::vector{1, 3}));
}

/// The far end of a rank's control socket, as that rank.
std::shared_ptr<TcpLinks> peer_of(Links& links, int rank) {
  auto peer = TcpLinks::create({.rank = rank, .ranks = int(links.far.size()), .epoch = 1});
  peer->arrive(0, Channel::kControl, std::move(links.far[std::size_t(rank)]));
  return peer;
}

// TL-2: the goodbye comes on another socket than the end, and behind it: nobody has died, and nobody is waited for.
TEST(LinksTest, TL2_AGoodbyeBehindTheEndOfTheDataSocketIsNoDeath) {
  for (const std::vector<int>& nodes : {std::vector{0, 1, 2, 1}, std::vector{0, 0, 0, 0}}) {
    Links links(nodes, hours(1));
    auto leaver = peer_of(links, 1);
    links.own->data_ended(1);
    EXPECT_FALSE(links.own->has_failed()) << "it may be on its way";
    leaver.reset();
    links.own->look();
    links.far[2].reset();
    EXPECT_EQ(links.named(), std::vector{2}) << "of a real death all hear at once";
  }
}

// TL-2: also where the nodes are not known, as in a join.
TEST(LinksTest, TL2_WhoseDataSocketEndsIsDeadWhenTheOtherOneEndsOrTheMomentIsOver) {
  for (const bool both : {true, false}) {
    auto own = TcpLinks::create({.rank = 0, .ranks = 3, .epoch = 1, .grace = both ? hours(1) : milliseconds(1)});
    auto told = std::make_shared<std::promise<Failure>>();
    own->on_failure([told](const Failure& failure) { told->set_value(failure); });
    UniqueFd far[2];
    for (int peer : {1, 2}) own->arrive(peer, Channel::kControl, near_end(far[peer - 1]));
    own->data_ended(1);
    if (both) far[0].reset();
    auto future = told->get_future();
    ASSERT_EQ(future.wait_for(seconds(60)), std::future_status::ready);
    const Failure failure = future.get();
    EXPECT_EQ(failure.reason, Reason::kDied);
    EXPECT_EQ(failure.missing_ranks, std::vector{1});
  }
}

// Of many that have spoken the last one is heard, too: here nobody but this thread looks.
TEST(LinksTest, WhoLooksHearsAllHoweverManyHaveSpoken) {
  constexpr int kRanks = 40;
  Links links(std::vector<int>(kRanks), hours(1));
  links.own->leave();
  for (int rank = 1; rank < kRanks - 1; ++rank) peer_of(links, rank).reset();
  const auto last = peer_of(links, kRanks - 1);
  last->fail({Reason::kBackend, "the last one's word", {}});
  links.own->look();
  ASSERT_TRUE(links.own->failure());
  EXPECT_EQ(links.own->failure()->text, "the last one's word");
}

net::Token::Digest proof_of_peer() {
  net::Token::Digest proof{};
  for (std::size_t i = 0; i < proof.size(); ++i) proof[i] = std::uint8_t(7 * i + 1);
  return proof;
}
/// Has the peer been sent anything by now?
bool was_sent(const UniqueFd& far) {
  char byte;
  return ::recv(far.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
}

// TL-6: without its descriptors the thread saw no peer, and nobody was told.
TEST(LinksTest, TL6_WhoHasNoDescriptorsForItsLinksHasFailedAndSaysSo) {
  if (kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs descriptors";
  UniqueFd far;
  UniqueFd near = near_end(far);
  std::shared_ptr<TcpLinks> own;
  {
    const FewDescriptors two(2);  // none is left for the third
    own = TcpLinks::create({.rank = 0, .ranks = 2, .epoch = 1});
  }
  ASSERT_TRUE(own->failure());
  EXPECT_EQ(own->failure()->reason, Reason::kBackend);
  EXPECT_TRUE(own->failure()->missing_ranks.empty());
  own->arrive(1, Channel::kControl, std::move(near));
  EXPECT_TRUE(was_sent(far)) << "TL-1: also to who comes late";
}

// TL-5: at f0736ec the listening side proved nothing.
TEST(LinksTest, TL5_ASocketIsUsedOnlyAfterThePeersProof) {
  UniqueFd far_data, far_control;
  auto own = TcpLinks::create({.rank = 0, .ranks = 2, .epoch = 1});
  own->arrive_unproven(1, Channel::kData, near_end(far_data), proof_of_peer());
  own->arrive_unproven(1, Channel::kControl, near_end(far_control), proof_of_peer());
  const net::Token::Digest proof = proof_of_peer();
  ASSERT_EQ(::send(far_data.get(), proof.data(), 20, 0), 20);
  own->look();
  EXPECT_LT(own->data(1), 0) << "a part of it is none";
  own->working_on({.sequence = 3, .signature = {}});
  own->tell_progress({});
  EXPECT_FALSE(was_sent(far_control)) << "nothing is said before";
  ASSERT_EQ(::send(far_data.get(), proof.data() + 20, 12, 0), 12);
  ASSERT_EQ(::send(far_control.get(), proof.data(), 32, 0), 32);
  while (own->data(1) < 0) own->look();  // or the thread's
  own->fail({Reason::kBackend, "so that something is said", {}});
  char byte = 0;
  EXPECT_EQ(::recv(far_control.get(), &byte, 1, 0), 1) << "TL-1: also to who comes late";
}

TEST(LinksTest, TL5_AWrongProofOrAnEchoIsAFailureThatNamesTheRank) {
  auto told = std::make_shared<std::promise<Failure>>();
  UniqueFd far_data, far_control;
  auto own = TcpLinks::create({.rank = 0, .ranks = 3, .epoch = 1});
  own->on_failure([told](const Failure& failure) { told->set_value(failure); });
  own->arrive_unproven(2, Channel::kData, near_end(far_data), proof_of_peer());
  own->arrive_unproven(2, Channel::kControl, near_end(far_control), proof_of_peer());
  net::Token::Digest wrong = proof_of_peer();
  wrong[31] ^= 1;
  ASSERT_EQ(::send(far_control.get(), wrong.data(), wrong.size(), 0), 32);
  auto future = told->get_future();
  ASSERT_EQ(future.wait_for(seconds(60)), std::future_status::ready);
  const Failure failure = future.get();
  EXPECT_EQ(failure.reason, Reason::kBackend);
  EXPECT_EQ(failure.missing_ranks, std::vector{2});
  EXPECT_NE(failure.text.find("does not know the group's key"), std::string::npos) << failure.text;
  EXPECT_FALSE(was_sent(far_data));
}

// TL-2, TL-5: a daemon that closes what nobody expects, or a peer that dies before.
TEST(LinksTest, TL5_WhoHangsUpBeforeItsProofIsDeadAndALeaverSaysGoodbye) {
  auto told = std::make_shared<std::promise<Failure>>();
  UniqueFd far_dead, far_data, far_control;
  auto own = TcpLinks::create({.rank = 0, .ranks = 3, .epoch = 1});
  own->on_failure([told](const Failure& failure) { told->set_value(failure); });
  own->arrive_unproven(1, Channel::kControl, near_end(far_control), proof_of_peer());
  own->arrive_unproven(2, Channel::kControl, near_end(far_dead), proof_of_peer());
  far_dead.reset();
  auto future = told->get_future();
  ASSERT_EQ(future.wait_for(seconds(60)), std::future_status::ready);
  const Failure failure = future.get();
  EXPECT_EQ(failure.reason, Reason::kDied);
  EXPECT_EQ(failure.missing_ranks, std::vector{2});
  EXPECT_FALSE(was_sent(far_control)) << "not even that";
  own->leave();
  EXPECT_TRUE(was_sent(far_control)) << "a goodbye, without which this rank would be taken for dead";
}

// TL-2, TL-5: the daemon hands a socket over while its rank leaves.
TEST(LinksTest, WhoHasLeftSaysGoodbyeToWhoComesLater) {
  for (const bool proven : {true, false}) {
    UniqueFd far_control, far_data;
    auto own = TcpLinks::create({.rank = 0, .ranks = 2, .epoch = 1});
    own->leave();
    if (proven) {
      own->arrive(1, Channel::kControl, near_end(far_control));
      own->arrive(1, Channel::kData, near_end(far_data));
    } else {
      own->arrive_unproven(1, Channel::kControl, near_end(far_control), proof_of_peer());
      own->arrive_unproven(1, Channel::kData, near_end(far_data), proof_of_peer());
    }
    own.reset();
    EXPECT_TRUE(was_sent(far_control)) << "without it this rank would be taken for dead";
    EXPECT_FALSE(was_sent(far_data));
  }
}

/// The two ends of a connection over loopback whose buffers are soon full; what the first one takes is no whole number
/// of frames.
std::pair<UniqueFd, UniqueFd> narrow_connection() {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd far(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int small = 2304, some = 65536;
  ::setsockopt(far.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  ::setsockopt(listener.get(), SOL_SOCKET, SO_SNDBUF, &some, sizeof some);
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_EQ(::connect(far.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return {UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)), std::move(far)};
}

/// A peer that reads slowly, a few bytes at a time: what has no room is lost, and no frame is cut.
TEST(LinksTest, TL7_AFrameThatWasBegunArrivesWhole) {
  std::pair<UniqueFd, UniqueFd> ends = narrow_connection();
  const UniqueFd far = std::move(ends.second);
  auto own = TcpLinks::create({.rank = 0, .ranks = 2, .epoch = 1});
  const int near = ends.first.get();
  own->arrive(1, Channel::kControl, std::move(ends.first));
  const unsigned never = 0;  // who reads slowly is not dead, however busy this machine is
  ::setsockopt(near, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof never);
  const timeval limit{30, 0};  // ends a broken run only
  ::setsockopt(far.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string got;
  const auto read_some = [&](std::size_t most) {
    std::string part(most, 0);
    const ssize_t n = ::recv(far.get(), part.data(), part.size(), 0);
    if (n > 0) got.append(part, 0, std::size_t(n));
    return n > 0;
  };
  for (std::uint64_t sequence = 1; sequence <= 1000; ++sequence) {
    own->working_on({sequence, {}});
    own->tell_progress({1});
    if (sequence > 200) read_some(900);  // less than a frame: its buffer stays full
  }
  constexpr std::size_t kFrame = 1024;
  pollfd more{far.get(), POLLIN, 0};
  while (got.size() % kFrame != 0 || ::poll(&more, 1, 0) == 1)
    ASSERT_TRUE(read_some(900)) << "nothing else is sent, and what was begun comes";
  own->leave();
  own.reset();
  while (read_some(900)) {}
  ASSERT_GT(got.size(), 100 * kFrame);
  std::size_t cut = 0;
  for (std::size_t at = 0; at + kFrame <= got.size(); at += kFrame) cut += got.compare(at, 4, got, 0, 4) != 0;
  EXPECT_EQ(cut, 0u);
}

}  // namespace
}  // namespace troupe::collective
