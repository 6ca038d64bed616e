// Nothing recorded goes unread.
#include <gtest/gtest.h>

#include "tests/rl/golden.h"

namespace {

using golden::Kind;

TEST(GoldenFolder, EveryFileHasAReader) {
  for (const golden::File& file : golden::files()) {
    EXPECT_NE(file.kind, Kind::kUnknown) << file.path << " holds cases that no test reads";
    const auto* format = file.content.if_contains("format");
    ASSERT_NE(format, nullptr) << file.path;
    EXPECT_EQ(golden::text(*format), "rl-golden-1") << file.path;
  }
}

TEST(GoldenFolder, TheProjectsOwnCopyHoldsEveryKind) {
  if (!golden::is_default_folder()) GTEST_SKIP() << "another folder was named";
  for (Kind kind : {Kind::kEnvironment, Kind::kAutoReset, Kind::kRandom, Kind::kGae, Kind::kVtrace, Kind::kPpo,
                    Kind::kDqn, Kind::kReplay, Kind::kSac, Kind::kMinAtar, Kind::kPictures, Kind::kStatistics,
                    Kind::kUpdates}) {
    EXPECT_FALSE(golden::files_of(kind).empty()) << static_cast<int>(kind);
  }
}

}  // namespace
