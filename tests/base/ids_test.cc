#include "core/base/ids.h"

#include <unordered_set>

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(Ids, PrintInAFixedWidthThatTellsThemApart) {
  const ObjectId id{{2, 7}, 0x1F};
  EXPECT_EQ(to_string(id), "0000000200000007000000000000001f");
  EXPECT_NE(to_string(id), to_string(ObjectId{{2, 7}, 0x20}));
  EXPECT_NE(to_string(id), to_string(ObjectId{{7, 2}, 0x1F}));
}

TEST(Ids, OfProcessesPrintAsPeopleSayThem) {
  EXPECT_EQ(to_string(kHead), "head");
  EXPECT_EQ(to_string(daemon_of(3)), "3/daemon");
  EXPECT_EQ(to_string(ProcessId{3, 14}), "3/14");
}

TEST(Ids, AreNilOnlyByDefault) {
  EXPECT_TRUE(TaskId{}.is_nil());
  EXPECT_FALSE((TaskId{{1, 1}, 1}.is_nil()));
}

TEST(Ids, HashWithoutCollidingInDenseRanges) {
  std::unordered_set<std::size_t> hashes;
  for (std::uint32_t node = 1; node <= 10; ++node) {
    for (std::uint64_t seq = 1; seq <= 1000; ++seq) hashes.insert(IdHash()(ObjectId{{node, node}, seq}));
  }
  EXPECT_EQ(hashes.size(), 10'000u);
}

}  // namespace
}  // namespace troupe
