// Who is kept from sending, and whom other nodes are told of: HSD-1, HSD-2, CGN-1.
#include <gtest/gtest.h>

#include <map>

#include "core/node/daemon/mail/congestion.h"
#include "core/node/daemon/mail/held_senders.h"

namespace troupe::node {
namespace {

const ProcessId kA{1, 1}, kB{1, 2}, kFrozen{1, 3};

TEST(HeldSenders, HSD1_IsLetGoWithTheLastCauseOnly) {
  HeldSenders held;
  EXPECT_TRUE(held.hold(kA, kFrozen));
  EXPECT_FALSE(held.hold(kA, kFrozen)) << "it is held already";
  EXPECT_FALSE(held.hold(kA, daemon_of(2)));
  EXPECT_TRUE(held.hold(kB, kFrozen));
  EXPECT_EQ(held.release(kFrozen), HeldSenders::Senders{kB});
  EXPECT_TRUE(held.is_held(kA));
  EXPECT_EQ(held.release(daemon_of(2)), HeldSenders::Senders{kA});
  EXPECT_TRUE(held.release(daemon_of(2)).empty()) << "said once";
}

TEST(HeldSenders, HSD2_TheDeadHoldNobody) {
  HeldSenders held;
  held.hold(kA, kFrozen);
  held.hold(kB, kFrozen);
  EXPECT_TRUE(held.forget(kA).empty()) << "a dead sender is not let go";
  EXPECT_EQ(held.forget(kFrozen), HeldSenders::Senders{kB});
}

TEST(HeldSenders, HSD3_WhoWasToldIsHeldOnlyWhenItGoesOnAllTheSame) {
  HeldSenders held;
  EXPECT_FALSE(held.sent_all_the_same(kA, kFrozen, HeldSenders::kAfterTold)) << "it was under way";
  EXPECT_TRUE(held.sent_all_the_same(kA, kFrozen, 1));
  EXPECT_FALSE(held.sent_all_the_same(kA, kFrozen, 1)) << "it is held already";
  EXPECT_EQ(held.release(kFrozen), HeldSenders::Senders{kA});
  EXPECT_FALSE(held.sent_all_the_same(kA, kFrozen, HeldSenders::kAfterTold)) << "counted anew";
}

TEST(Congestion, CGN1_AListenerIsToldOnceOfEachChange) {
  Congestion congestion;
  std::map<ProcessId, std::size_t> backlog{{kFrozen, Congestion::kHigh + 1}};
  const auto look = [&] { return congestion.look([&](ProcessId process) { return backlog[process]; }); };
  EXPECT_FALSE(congestion.waits(kA, Congestion::kHigh));
  EXPECT_TRUE(congestion.waits(kFrozen, backlog[kFrozen]));
  EXPECT_TRUE(congestion.tell(kFrozen, daemon_of(2)));
  EXPECT_FALSE(congestion.tell(kFrozen, daemon_of(2)));
  EXPECT_TRUE(congestion.tell(kFrozen, kA));
  backlog[kFrozen] = Congestion::kLow;
  EXPECT_TRUE(look().empty()) << "not yet: whoever is let go at the brim is held again at once";
  EXPECT_TRUE(congestion.waits(kFrozen, backlog[kFrozen]));
  backlog[kFrozen] = 0;  // it reads again, or is dead
  const auto opened = look();
  ASSERT_EQ(opened.size(), 1u);
  EXPECT_EQ(opened[0].process, kFrozen);
  EXPECT_EQ(opened[0].told, (std::vector<ProcessId>{kA, daemon_of(2)}));
  EXPECT_FALSE(congestion.any());
  EXPECT_TRUE(look().empty());
}

}  // namespace
}  // namespace troupe::node
