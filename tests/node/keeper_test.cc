// The keeper of a node by messages: what frames name is pinned, copies are brought, all is let go (KR-1 to KR-3).
#include "core/node/store/keeper.h"

#include <gtest/gtest.h>

#include <map>

#include "fake_messenger.h"

namespace troupe::node {
namespace {

const wire::BufferDesc kHere{1, 5, 2, 100}, kAlsoHere{1, 6, 1, 200}, kThere{2, 7, 3, 300};
const wire::KeptName kName{{{1, 4}, 9}, 0, 1};

class KeeperTest : public testing::Test {
 protected:
  int holds(const wire::BufferDesc& buffer) { return held_[{buffer.node, buffer.slot, buffer.generation}]; }
  net::FrameHeader request() {
    net::FrameHeader header;
    header.token = ++token_;
    return header;
  }

  test::FakeMessenger messenger_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, int> held_;
  std::vector<std::pair<wire::BufferDesc, Keeper::Brought>> brought_;
  bool gone_ = false;
  Keeper keeper_{1,
                 messenger_,
                 {[this](ProcessId, store::BufferId id) {
                    if (gone_) return false;
                    ++held_[{id.node, id.slot, id.generation}];
                    return true;
                  },
                  [this](ProcessId, store::BufferId id) {
                    --held_[{id.node, id.slot, id.generation}];
                  },
                  [this](const wire::BufferDesc& buffer, Keeper::Brought done) {
                    brought_.emplace_back(buffer, std::move(done));
                  }}};
  std::uint64_t token_ = 0;
};

TEST_F(KeeperTest, KR1_WhatAFrameNamesIsPinnedWhereItLies) {
  keeper_.pass_on(kName, {kHere, kAlsoHere, kThere});
  EXPECT_EQ(holds(kHere), 1);
  EXPECT_EQ(holds(kAlsoHere), 1);
  ASSERT_EQ(messenger_.requests.size(), 1u);
  EXPECT_EQ(messenger_.requests[0].to, daemon_of(2));
  EXPECT_EQ(messenger_.requests[0].method, wire::Method::kStoreHold);
  const auto hold = wire::decode_message<wire::StoreHoldRequest>(messenger_.requests[0].payload).value();
  EXPECT_FALSE(hold.holder.is_daemon()) << "it is a pin, not an export";
  EXPECT_EQ(hold.holder.node, 1u) << "it goes with this node";
  keeper_.no_more(kName);
  EXPECT_EQ(holds(kHere), 0);
  EXPECT_EQ(holds(kAlsoHere), 0);
  ASSERT_EQ(messenger_.notices.size(), 1u);
  EXPECT_EQ(messenger_.notices[0].method, wire::Method::kStoreUnhold);
  keeper_.no_more(kName);
  EXPECT_EQ(holds(kHere), 0);
  EXPECT_EQ(keeper_.names(), 0u);
}

TEST_F(KeeperTest, KR2_CopiesAreAnsweredWhenAllAreHere) {
  keeper_.keep(request(), {kName, {kThere, kHere, kThere}});
  ASSERT_EQ(brought_.size(), 2u);
  brought_[0].second(store::BufferId{1, 30, 1});
  EXPECT_TRUE(messenger_.answers.empty());
  brought_[1].second(store::BufferId{1, 30, 1});
  ASSERT_EQ(messenger_.answers.size(), 1u);
  const auto reply = wire::decode_message<wire::KeepReply>(messenger_.answers[0].payload).value();
  const wire::BufferDesc copy{1, 30, 1, kThere.size};
  EXPECT_EQ(reply.buffers, (std::vector{copy, kHere, copy}));
  EXPECT_EQ(holds(copy), 2);
  keeper_.no_more(kName);
  EXPECT_EQ(holds(copy), 0);
  EXPECT_EQ(holds(kHere), 0);
}

TEST_F(KeeperTest, KR2_WhenOneCannotBeHadNoneIsPinned) {
  keeper_.keep(request(), {kName, {kThere, kHere}});
  brought_.at(0).second(make_error<ObjectStoreFullError>("full"));
  ASSERT_EQ(messenger_.answers.size(), 1u);
  EXPECT_TRUE(messenger_.answers[0].failed);
  EXPECT_EQ(holds(kHere), 0);
  EXPECT_EQ(keeper_.names(), 0u);
}

TEST_F(KeeperTest, KR2_ABufferThatIsGoneIsAnError) {
  gone_ = true;
  keeper_.keep(request(), {kName, {kHere}});
  ASSERT_EQ(messenger_.answers.size(), 1u);
  EXPECT_TRUE(messenger_.answers[0].failed);
}

TEST_F(KeeperTest, KR3_WhatIsNoMoreWantedIsLetGoWhenItComes) {
  keeper_.keep(request(), {kName, {kThere, kHere}});
  keeper_.no_more(kName);
  keeper_.pass_on(kName, {kAlsoHere});  // the name is free again
  brought_.at(0).second(store::BufferId{1, 30, 1});
  ASSERT_EQ(messenger_.answers.size(), 1u);
  EXPECT_TRUE(messenger_.answers[0].failed);
  EXPECT_EQ(holds(kHere), 0);
  EXPECT_EQ(holds({1, 30, 1, 0}), 0);
  EXPECT_EQ(holds(kAlsoHere), 1);
}

}  // namespace
}  // namespace troupe::node
