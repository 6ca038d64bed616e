// What TcpLinks makes of peers whose connections end: who is named, and when (TL-2, TL-3). Far ends are plain sockets.
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <future>
#include <vector>

#include "collective/tcp/links.h"

namespace troupe::collective {
namespace {

using std::chrono::hours, std::chrono::milliseconds, std::chrono::seconds;

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
  links.far[1].reset();
  EXPECT_EQ(links.named(), (std::vector{1, 3}));
}

}  // namespace
}  // namespace troupe::collective
