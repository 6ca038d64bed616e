#include "core/base/recent_set.h"

#include <gtest/gtest.h>
#include <functional>

namespace troupe {
namespace {

TEST(RecentSet, RES1_TheOneThatWasPutInFirstGoesFirst) {
  RecentSet<int, std::hash<int>> set(3);
  for (int key : {1, 2, 3}) EXPECT_TRUE(set.insert(key));
  EXPECT_FALSE(set.insert(1)) << "and it is not younger for that";
  EXPECT_TRUE(set.insert(4));
  EXPECT_EQ(set.size(), 3u);
  EXPECT_FALSE(set.contains(1));
  for (int key : {2, 3, 4}) EXPECT_TRUE(set.contains(key));
  EXPECT_TRUE(set.insert(1)) << "a key that went may come again";
  EXPECT_FALSE(set.contains(2));
}

}  // namespace
}  // namespace troupe
