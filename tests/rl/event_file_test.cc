// TBE-1 to TBE-3 and the framing, against bytes that TensorBoard 2.21's own classes wrote. tensorboard_test.py reads
//       such
// files with its readers.
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "apps/common/tensorboard/event_file.h"
#include "apps/common/tensorboard/records.h"
#include "tests/rl/full_disk.h"
#include "tests/base/temporary_folder.h"

namespace {

using apps::tensorboard::EventFile;
using apps::tensorboard::EventFileOptions;
using apps::tensorboard::Scalar;
using troupe::test::bytes_of;
using rl_test::FullDisk;
using troupe::test::TemporaryFolder;

constexpr double kTime = 1'700'000'000.25;

// A file_version, a session START at step 300, and two events with scalars.
constexpr std::string_view kRecorded =
    "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9100000000000000095fbfe18"
    "0900001040fc54d94110ac023a0208016b3b88f13800000000000000a3797d570900006040fc54d9411080a0022a290a1a0a1372"
    "6f6c6c6f75742f6d65616e5f72657475726e15856b54430a0b0a046c6f737315000000bfc97c61911e00000000000000d9dc1232"
    "090000a040fc54d9411080e497d0122a0d0a0b0a046c6f7373150000000033d71fff";
constexpr std::size_t kHeadDigits = 2 * (40 + 32);  // of the first two records

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out.push_back("0123456789abcdef"[static_cast<unsigned char>(c) >> 4]);
    out.push_back("0123456789abcdef"[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

TEST(Records, ChecksumIsThatOfTheRfcAndFramingTheRecordedOne) {
  EXPECT_EQ(apps::tensorboard::crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(apps::tensorboard::crc32c(std::string(32, '\0')), 0x8a9136aaU);   // RFC 3720, B.4
  EXPECT_EQ(apps::tensorboard::crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(hex(apps::tensorboard::record("abc")), "0300000000000000b099490e6162636e57f121");
}

TEST(EventFile, TBE1_TBE2_TheBytesAreTensorBoards) {
  const TemporaryFolder folder;
  std::filesystem::path path;
  {
    EventFile file = EventFile::create(folder / "logs", kTime, {.first_step = 300}).value();
    path = file.path();
    const std::array both{Scalar{"rollout/mean_return", 212.42}, Scalar{"loss", -0.5}};
    ASSERT_TRUE(file.add(36'864, kTime + 1.25, both).ok());
    ASSERT_TRUE(file.add(5'000'000'000, kTime + 2.25, std::array{Scalar{"loss", 0.0}}).ok());
    EXPECT_EQ(hex(bytes_of(path)), kRecorded.substr(0, kHeadDigits)) << "10 seconds have not passed";
  }
  EXPECT_EQ(hex(bytes_of(path)), kRecorded) << "the destructor writes the rest";
  EXPECT_EQ(path.filename().string().substr(0, 31), "events.out.tfevents.1700000000.");
}

TEST(EventFile, TBE1_ARunThatGoesOnHasAFileOfItsOwn) {
  const TemporaryFolder folder;
  const EventFile one = EventFile::create(folder.path(), kTime, {}).value();
  const EventFile two = EventFile::create(folder.path(), kTime, {}).value();
  EXPECT_NE(one.path(), two.path());
  EXPECT_EQ(folder.files(), 2u);
  EXPECT_LT(one.path(), two.path()) << "readers take files by name";
}

TEST(EventFile, TBE2_WrittenWhenTheIntervalHasPassed) {
  const TemporaryFolder folder;
  EventFile file = EventFile::create(folder.path(), kTime, {.flush_seconds = 5}).value();
  const auto size = [&] { return bytes_of(file.path()).size(); };
  const std::size_t head = size();
  const std::array loss{Scalar{"loss", 1}};
  ASSERT_TRUE(file.add(1, kTime + 4.9, loss).ok());
  EXPECT_EQ(size(), head);
  ASSERT_TRUE(file.add(2, kTime + 5.0, loss).ok());
  const std::size_t two = size();
  EXPECT_GT(two, head);
  ASSERT_TRUE(file.add(3, kTime + 9.9, loss).ok());
  EXPECT_EQ(size(), two) << "counted from the last flush";
  ASSERT_TRUE(file.flush().ok());
  EXPECT_EQ(2 * (size() - two), two - head) << "one more event, where there were two";
  ASSERT_TRUE(file.add(4, kTime - 100, loss).ok());
  EXPECT_EQ(3 * (two - head), 2 * (size() - head) - (two - head)) << "a clock that was set back: written at once";
}

TEST(EventFile, TBE3_AFullDiskIsAnErrorThatLosesNothing) {
  const TemporaryFolder folder;
  std::filesystem::path path;
  {
    EventFile file = EventFile::create(folder / "logs", kTime, {.first_step = 300, .flush_seconds = 0}).value();
    path = file.path();
    {
      const FullDisk full(100);
      const std::array both{Scalar{"rollout/mean_return", 212.42}, Scalar{"loss", -0.5}};
      const troupe::Status failed = file.add(36'864, kTime + 1.25, both);
      ASSERT_FALSE(failed.ok());
      EXPECT_EQ(failed.error().code(), troupe::ErrorCode::kOutOfDisk);
      EXPECT_EQ(hex(bytes_of(path)), kRecorded.substr(0, kHeadDigits)) << "no half of a record";
    }
    ASSERT_TRUE(file.add(5'000'000'000, kTime + 2.25, std::array{Scalar{"loss", 0.0}}).ok());
    EXPECT_EQ(file.dropped(), 0);
  }
  EXPECT_EQ(hex(bytes_of(path)), kRecorded);
}

TEST(EventFile, TBE3_WhatDoesNotFitInMemoryIsCountedAndOlderEventsStay) {
  const TemporaryFolder folder;
  EventFile file = EventFile::create(folder.path(), kTime, {.flush_seconds = 0, .pending_bytes_max = 1'000}).value();
  const std::size_t head = bytes_of(file.path()).size();
  {
    const FullDisk full(head);
    for (int step = 0; step < 100; ++step)
      EXPECT_FALSE(file.add(step, kTime + step, std::array{Scalar{"loss", 1}}).ok()) << step;
  }
  ASSERT_TRUE(file.flush().ok());
  const std::size_t record = 16 + 9 + 2 + 2 + 2 + 6 + 5;  // frame, time, step, heads of two messages, tag, value
  const std::size_t kept = (bytes_of(file.path()).size() - head) / record;
  EXPECT_EQ((bytes_of(file.path()).size() - head) % record, 0u);
  EXPECT_EQ(kept, 1'000 / record);
  EXPECT_EQ(static_cast<std::size_t>(file.dropped()), 100 - kept);
}

TEST(EventFile, BadTagsAndFoldersAreTypedErrors) {
  const TemporaryFolder folder;
  EventFile file = EventFile::create(folder.path(), kTime, {.flush_seconds = 0}).value();
  const std::string before = bytes_of(file.path());
  for (const std::string_view tag : {"", "a\nb", "\xc3\xa9", "a\x7f"}) {
    const troupe::Status refused = file.add(1, kTime, std::array{Scalar{"loss", 1}, Scalar{tag, 1}});
    ASSERT_FALSE(refused.ok()) << tag;
    EXPECT_EQ(refused.error().code(), troupe::ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(bytes_of(file.path()), before);
  troupe::test::put(folder / "file", "");
  const auto made = EventFile::create(folder / "file", kTime, {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), troupe::ErrorCode::kInvalidArgument);
  for (const double time : {std::nan(""), -1.0, 1e18})
    EXPECT_FALSE(EventFile::create(folder / "other", time, {}).ok()) << time;
  EXPECT_FALSE(std::filesystem::exists(folder / "other"));
}

}  // namespace
