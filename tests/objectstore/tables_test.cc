// Promises of slot_table.h, chunk_table.h, copy_table.h and of the word in layout.h.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "objectstore/server/chunk_table.h"
#include "objectstore/server/copy_table.h"
#include "objectstore/arena/layout.h"
#include "objectstore/server/slot_table.h"

namespace troupe::store {
namespace {

constexpr ProcessId kA{1, 1}, kB{1, 2};

TEST(SlotWord, PackingIsReversibleAndGenerationZeroIsNeverUsed) {
  for (std::uint32_t generation : {1u, 7u, ~0u}) {
    for (SlotState state : {SlotState::kFree, SlotState::kLeased, SlotState::kSealed, SlotState::kDoomed}) {
      EXPECT_EQ(unpack(pack({generation, state})), (SlotWord{generation, state}));
    }
  }
  EXPECT_EQ(next_generation(~0u), 1u);
  EXPECT_EQ(next_generation(5), 6u);
}

TEST(SlotTable, EverySlotIsLeasedOnceAndReusedLastInFirstOut) {
  std::mt19937 random(1);
  SlotTable table(100);
  std::set<std::uint32_t> leased;
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2) {
      auto slot = table.lease(SlotKind::kSmall, kA);
      ASSERT_EQ(slot.has_value(), leased.size() < 100) << "SLT-1";
      if (slot) {
        ASSERT_TRUE(leased.insert(*slot).second) << "SLT-1";
        ASSERT_EQ(table[*slot].owner, kA);
      }
    } else if (!leased.empty()) {
      auto it = std::next(leased.begin(), random() % leased.size());
      std::uint32_t slot = *it;
      leased.erase(it);
      table.free_slot(slot);
      ASSERT_EQ(table[slot].kind, SlotKind::kFree);
      auto again = table.lease(SlotKind::kLarge, kB);
      ASSERT_EQ(again, slot) << "SLT-2";
      table.free_slot(slot);
    }
    ASSERT_EQ(table.in_use(), leased.size());
    ASSERT_EQ(table.available(), 100 - leased.size());
  }
}

TEST(ChunkTable, AChunkIsEmptyWhenReturnedAndAllItsSharedBuffersAreFreed) {
  ChunkTable table;
  Range range{8192, 65536};
  std::uint32_t id = table.add(kA, range);
  EXPECT_EQ(table.bytes(), 65536u);
  EXPECT_FALSE(table.freed_one(*table.find(id))) << "CH-1: not returned yet";
  EXPECT_FALSE(table.returned(*table.find(id), 3));
  EXPECT_FALSE(table.freed_one(*table.find(id)));
  EXPECT_EQ(table.freed_one(*table.find(id)), range);
  EXPECT_EQ(table.find(id), nullptr);
  EXPECT_EQ(table.bytes(), 0u);
}

TEST(ChunkTable, OnlyTheOwnersOwnChunkContainsARange) {
  ChunkTable table;
  table.add(kA, {0, 4096});
  table.add(kB, {4096, 4096});
  EXPECT_NE(table.containing({64, 64}, kA), nullptr);
  EXPECT_EQ(table.containing({64, 64}, kB), nullptr);
  EXPECT_EQ(table.containing({4032, 128}, kA), nullptr) << "reaches into the next chunk";
  EXPECT_EQ(table.containing({64, ~0ull}, kA), nullptr) << "no overflow";
  EXPECT_EQ(table.containing({100000, 1}, kA), nullptr);
}

TEST(ChunkTable, AnOrphanGoesWithItsLastLiveBuffer) {
  ChunkTable table;
  std::uint32_t id = table.add(kA, {0, 4096});
  (void)table.freed_one(*table.find(id));
  EXPECT_FALSE(table.orphaned(*table.find(id), 2));
  EXPECT_TRUE(table.owned_by(kA).empty());
  EXPECT_NE(table.containing({0, 64}, ProcessId{}), nullptr);
  EXPECT_FALSE(table.freed_one(*table.find(id)));
  EXPECT_TRUE(table.freed_one(*table.find(id)));
  std::uint32_t empty = table.add(kB, {4096, 4096});
  EXPECT_TRUE(table.orphaned(*table.find(empty), 0));
}

TEST(CopyTable, FindsPresentCopiesAndForgetsThoseWhoseOriginIsGone) {
  CopyTable table;
  BufferId remote{2, 5, 1}, local{1, 9, 4};
  table.begin(remote, local);
  EXPECT_EQ(table.find(remote)->state, CopyTable::State::kFilling);
  EXPECT_TRUE(table.finish(remote));
  EXPECT_FALSE(table.finish(remote));
  EXPECT_EQ(table.find(remote)->local, local);
  table.mark_origin_gone(remote);
  EXPECT_EQ(table.find(remote), nullptr);
  table.begin(remote, {1, 10, 1});  // copied anew while the old copy is still pinned
  table.erase_slot(9);
  EXPECT_EQ(table.find(remote)->local.slot, 10u) << "CT-1";
  table.erase_slot(10);
  EXPECT_EQ(table.size(), 0u);
}

TEST(CopyTable, OffersTheLeastRecentlyUsedFirst) {
  CopyTable table;
  for (std::uint32_t i = 0; i < 4; ++i) {
    table.begin({2, i, 1}, {1, 100 + i, 1});
    if (i != 3) table.finish({2, i, 1});
  }
  table.touch(100);
  std::vector<std::uint32_t> order;
  table.each_least_recent([&](const CopyTable::Copy& copy) { order.push_back(copy.remote.slot); });
  EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 0})) << "CT-2: the one being filled is not offered";
}

}  // namespace
}  // namespace troupe::store
