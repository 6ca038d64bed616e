// APF-1 to APF-3, RJL-1 to RJL-3: files that grow, and the log of JSON lines.
#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "apps/common/append_file.h"
#include "apps/rl/training/json_lines.h"
#include "tests/rl/full_disk.h"
#include "tests/base/temporary_folder.h"

namespace {

using apps::AppendFile;
using apps::Existing;
using rl::JsonLines;
using troupe::test::bytes_of;
using rl_test::FullDisk;
using troupe::test::put;
using troupe::test::TemporaryFolder;

TEST(AppendFile, MakesItsFolderAndGoesOnWhereAFileEnds) {
  const TemporaryFolder folder;
  const auto path = folder / "a/b.log";
  ASSERT_TRUE(AppendFile::open(path, Existing::kRefuse).value().append("one\n").ok());
  ASSERT_TRUE(AppendFile::open(path, Existing::kExtend).value().append("two").ok());
  ASSERT_TRUE(AppendFile::open(path, Existing::kExtend).value().append("three").ok());
  EXPECT_EQ(bytes_of(path), "one\ntwothree");
  const auto refused = AppendFile::open(path, Existing::kRefuse);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), troupe::ErrorCode::kInvalidArgument);
  EXPECT_EQ(bytes_of(path), "one\ntwothree");
  EXPECT_FALSE(AppendFile::open(folder.path(), Existing::kExtend).ok()) << "a folder is no file";
}

TEST(AppendFile, APF1_APF2_WhatDoesNotFitIsAbsentAndLaterBytesAreWritten) {
  const TemporaryFolder folder;
  AppendFile file = AppendFile::open(folder / "f", Existing::kRefuse).value();
  ASSERT_TRUE(file.append(std::string(60, 'a')).ok());
  {
    const FullDisk full(100);
    const troupe::Status failed = file.append(std::string(60, 'b'));  // 40 of them fit
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code(), troupe::ErrorCode::kOutOfDisk);
    EXPECT_EQ(bytes_of(folder / "f"), std::string(60, 'a'));
    EXPECT_TRUE(file.append(std::string(40, 'c')).ok());
  }
  ASSERT_TRUE(file.append("d").ok());
  EXPECT_TRUE(file.sync().ok());
  EXPECT_EQ(bytes_of(folder / "f"), std::string(60, 'a') + std::string(40, 'c') + "d");
}

TEST(AppendFile, APF2_ADeviceWithoutRoomIsOutOfDisk) {
  const troupe::Status failed = AppendFile::open("/dev/full", Existing::kAfterLastLine).value().append("x");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), troupe::ErrorCode::kOutOfDisk);
}

TEST(AppendFile, APF3_OnlyWhatFollowsTheLastEndOfLineIsCut) {
  const TemporaryFolder folder;
  const std::string longer(10'000, 'x');  // more than a block is read
  for (const auto& [before, after] : std::vector<std::pair<std::string, std::string>>{
           {"", ""}, {"\n", "\n"}, {"half", ""}, {"a\nb\n", "a\nb\n"}, {"a\nb\nhalf", "a\nb\n"},
           {"a\n" + longer, "a\n"}, {longer, ""}, {longer + "\n" + longer, longer + "\n"},
           {longer + "\n", longer + "\n"}}) {
    put(folder / "f", before);
    ASSERT_TRUE(AppendFile::open(folder / "f", Existing::kAfterLastLine).ok());
    EXPECT_EQ(bytes_of(folder / "f"), after) << before.size();
  }
}

TEST(JsonLines, RJL1_OneObjectALineAndATornLastLineIsCutOnResume) {
  const TemporaryFolder folder;
  const auto path = folder / "run/progress.jsonl";
  {
    JsonLines log = JsonLines::open(path).value();
    ASSERT_TRUE(log.add({{"steps", 100}, {"note", "a\nb"}}).ok());
    ASSERT_TRUE(log.add({{"steps", 200}, {"mean_return", 21.5}}).ok());
  }
  const std::string whole = "{\"steps\":100,\"note\":\"a\\nb\"}\n{\"steps\":200,\"mean_return\":2.15E1}\n";
  EXPECT_EQ(bytes_of(path), whole);
  for (std::size_t torn = 1; torn < 20; ++torn) {
    put(path, whole + std::string("{\"steps\":300,\"note\":\"").substr(0, torn));
    ASSERT_TRUE(JsonLines::open(path).value().add({{"steps", 300}}).ok());
    EXPECT_EQ(bytes_of(path), whole + "{\"steps\":300}\n");
  }
}

TEST(JsonLines, RJL2_WhatIsNoNumberInJsonIsNull) {
  const TemporaryFolder folder;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(JsonLines::open(folder / "f")
                  .value()
                  .add({{"loss", std::nan("")}, {"deep", {{"list", boost::json::array{1, kInfinity, -kInfinity}}}}})
                  .ok());
  EXPECT_EQ(bytes_of(folder / "f"), "{\"loss\":null,\"deep\":{\"list\":[1,null,null]}}\n");
}

TEST(JsonLines, RJL3_ALineForWhichThereIsNoRoomIsAbsent) {
  const TemporaryFolder folder;
  JsonLines log = JsonLines::open(folder / "f").value();
  ASSERT_TRUE(log.add({{"steps", 1}}).ok());
  {
    const FullDisk full(20);
    const troupe::Status failed = log.add({{"steps", 2}});
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code(), troupe::ErrorCode::kOutOfDisk);
  }
  ASSERT_TRUE(log.add({{"steps", 3}}).ok());
  EXPECT_EQ(bytes_of(folder / "f"), "{\"steps\":1}\n{\"steps\":3}\n");
}

}  // namespace
