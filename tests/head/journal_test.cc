// What a head writes down (HJ-1 to HJ-3 of service/journal.h).
#include "core/head/service/journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace troupe::head {
namespace {

using Kind = Journal::Kind;
const Journal::Identity kSelf{"cluster", 7, 99};

struct Read {
  Kind kind;
  Time time;
  std::uint64_t a, b;
  std::string text;
  bool operator==(const Read&) const = default;
};

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/troupe-journal-test-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/head.journal";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::vector<Read> read(const Journal& journal) {
    std::vector<Read> list;
    const Status all = journal.replay([&](const Journal::Record& record) {
      list.push_back({record.kind, record.time, record.a, record.b, std::string(as_text(record.bytes))});
      return true;
    });
    EXPECT_TRUE(all.ok());
    return list;
  }
  std::string folder_, path_;
};

TEST_F(JournalTest, HJ1_WhatWasWrittenIsReadInItsOrder) {
  {
    auto journal = *Journal::create(path_, kSelf);
    journal->append({Kind::kOpened, Time(5), 1, 77});
    journal->append({Kind::kFrame, Time(6), 2, 0, as_bytes("header")}, as_bytes(" and payload"));
    journal->append({Kind::kTick, Time(7)});
  }
  auto journal = *Journal::recover(path_);
  EXPECT_EQ(journal->identity().cluster_id, "cluster");
  EXPECT_EQ(journal->identity().seed, 7u);
  EXPECT_EQ(journal->identity().incarnation, 99u);
  const std::vector<Read> wanted{{Kind::kOpened, Time(5), 1, 77, ""},
                                 {Kind::kFrame, Time(6), 2, 0, "header and payload"},
                                 {Kind::kTick, Time(7), 0, 0, ""}};
  EXPECT_EQ(read(*journal), wanted);
}

TEST_F(JournalTest, HJ1_OfARecordThatWasCutOffNothingIsReadAndWhatFollowsIsWhole) {
  { (*Journal::create(path_, kSelf))->append({Kind::kTick, Time(1)}); }
  const auto one = std::filesystem::file_size(path_);
  { (*Journal::recover(path_))->append({Kind::kFrame, Time(2), 3, 0, as_bytes("cut off")}); }
  const auto two = std::filesystem::file_size(path_);
  for (auto size = one; size < two; ++size) {
    std::filesystem::resize_file(path_, size);
    auto journal = *Journal::recover(path_);
    EXPECT_EQ(read(*journal).size(), 1u) << size;
    journal->append({Kind::kClosed, Time(3), 4});
    journal.reset();
    const std::vector<Read> records = read(**Journal::recover(path_));
    ASSERT_EQ(records.size(), 2u) << size;
    EXPECT_EQ(records[1], (Read{Kind::kClosed, Time(3), 4, 0, ""}));
    std::filesystem::resize_file(path_, one);
    (*Journal::recover(path_))->append({Kind::kFrame, Time(2), 3, 0, as_bytes("cut off")});
  }
}

TEST_F(JournalTest, HJ2_OneProcessAtATime) {
  auto journal = *Journal::create(path_, kSelf);
  EXPECT_FALSE(Journal::recover(path_).ok());
  EXPECT_FALSE(Journal::create(path_, kSelf).ok());
}

TEST_F(JournalTest, HJ3_OneThatWouldPassItsBoundIsRemoved) {
  auto journal = *Journal::create(path_, kSelf, 200);
  for (int i = 0; i < 10; ++i) journal->append({Kind::kTick, Time(i)});
  EXPECT_TRUE(journal->given_up());
  EXPECT_FALSE(std::filesystem::exists(path_));
  auto none = Journal::recover(path_);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), ErrorCode::kNotFound);
}

TEST_F(JournalTest, AnotherFileIsRefused) {
  std::ofstream(path_) << "not a journal, but long enough to be one";
  auto other = Journal::recover(path_);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace troupe::head
