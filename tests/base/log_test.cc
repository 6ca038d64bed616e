#include "core/base/log.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace troupe {
namespace {

class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    std::string name = (std::filesystem::temp_directory_path() / "log_test_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~LogTest() override {
    (void)open_log({.level = LogLevel::kWarn});
    std::filesystem::remove_all(folder_);
  }
  std::string file() const { return (folder_ / "log").string(); }
  std::string written() const {
    flush_log();
    std::ostringstream text;
    text << std::ifstream(file()).rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
};

TEST_F(LogTest, WritesLinesOfItsLevelWithTheProcessLabel) {
  ASSERT_TRUE(open_log({.file = file(), .label = "daemon 1", .level = LogLevel::kInfo}));
  write_log(LogLevel::kInfo, "node {} is {} ms late", 3, 12);
  write_log(LogLevel::kDebug, "invisible");
  set_log_level(LogLevel::kDebug);
  write_log(LogLevel::kDebug, "visible");
  const std::string text = written();
  EXPECT_NE(text.find("node 3 is 12 ms late"), std::string::npos);
  EXPECT_NE(text.find("daemon 1"), std::string::npos);
  EXPECT_EQ(text.find("invisible"), std::string::npos);
  EXPECT_NE(text.find("] visible"), std::string::npos);
}

TEST_F(LogTest, FormatsEveryKindOfValueAndSurvivesAWrongFormat) {
  ASSERT_TRUE(open_log({.file = file()}));
  const char* none = nullptr;
  write_log(LogLevel::kInfo, "{} {:x} {:.1f} {} {} {}|", -3, 255u, 2.54, std::string("s"), true, none);
  write_log(LogLevel::kInfo, "too few {} {}", 1);
  write_log(LogLevel::kInfo, "wrong {:d}", "text");
  const std::string text = written();
  EXPECT_NE(text.find("-3 ff 2.5 s true (null)|"), std::string::npos) << text;
  EXPECT_NE(text.find("too few {} {}"), std::string::npos);
  EXPECT_NE(text.find("wrong {:d}"), std::string::npos);
}

TEST_F(LogTest, SaysWhenItsFileCannotBeOpened) {
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(open_log({.file = "/proc/nowhere/log", .label = "x"}));
  write_log(LogLevel::kError, "still {}", "heard");
  flush_log();
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("cannot open the log file"), std::string::npos);
  EXPECT_NE(text.find("still heard"), std::string::npos);
}

TEST_F(LogTest, TurnsTheFileOverAtItsLimit) {
  ASSERT_TRUE(open_log({.file = file(), .file_bytes_max = 4096}));
  for (int i = 0; i < 1000; ++i) write_log(LogLevel::kInfo, "line {}", i);
  flush_log();
  std::uintmax_t total = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) total += entry.file_size();
  EXPECT_LE(total, 3 * 4096u);
  EXPECT_NE(written().find("line 999"), std::string::npos);
}

TEST(LogLevel, IsReadFromItsName) {
  EXPECT_EQ(log_level_of("debug", LogLevel::kInfo), LogLevel::kDebug);
  EXPECT_EQ(log_level_of("warn", LogLevel::kInfo), LogLevel::kWarn);
  EXPECT_EQ(log_level_of("loud", LogLevel::kInfo), LogLevel::kInfo);
}

}  // namespace
}  // namespace troupe
