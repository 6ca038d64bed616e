// DSF-1, DSF-2: a folder has one data set, whoever begins it, and however many at once.
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/datagen/config/job.h"
#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/generators/generator_registry.h"
#include "apps/datagen/run/dataset_folder.h"
#include "tests/base/temporary_folder.h"
#include "tests/datagen/tiny.h"

namespace datagen {
namespace {

using troupe::test::TemporaryFolder;
namespace fs = std::filesystem;

class DatasetFolderTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    register_generator(test::numbers()).value();
    register_format(test::lines()).value();
  }
  static JobConfig config(std::uint64_t seed) {
    return configure({.generator = "numbers", .format = "lines", .samples = 95, .seed = seed, .isa = "portable"})
        .value();
  }
};

/// DSF-2: with the same configuration all go on, whoever was first.
TEST_F(DatasetFolderTest, IsBegunOnceByManyAtOnce) {
  for (int turn = 0; turn < 20; ++turn) {
    const TemporaryFolder folder;
    const fs::path out = folder / "set";
    std::vector<pid_t> children;
    for (int process = 0; process < 4; ++process) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) ::_exit(open_dataset(out, config(7), "").ok() ? 0 : 1);
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    EXPECT_EQ(read_dataset(out).value().config.hash(), config(7).hash());
  }
}

/// DSF-1, DSF-2: with others one is refused, and the folder is the one's that was not.
TEST_F(DatasetFolderTest, IsOneConfigurationsOfManyAtOnce) {
  for (int turn = 0; turn < 20; ++turn) {
    const TemporaryFolder folder;
    const fs::path out = folder / "set";
    std::vector<pid_t> children;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        const auto opened = open_dataset(out, config(seed), "");
        const bool named = !opened.ok() && opened.error().message().find("seed: was") != std::string::npos;
        ::_exit(opened.ok() ? 0 : named ? 1 : 2);
      }
      children.push_back(child);
    }
    std::vector<std::uint64_t> began;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      int status = 0;
      ASSERT_EQ(::waitpid(children[seed], &status, 0), children[seed]);
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2) << "refused for another reason";
      if (WEXITSTATUS(status) == 0) began.push_back(seed);
    }
    ASSERT_EQ(began.size(), 1u);
    EXPECT_EQ(read_dataset(out).value().config.hash(), config(began[0]).hash());
    EXPECT_EQ(std::distance(fs::directory_iterator(out / "manifest"), {}), 1) << "nothing is left beside job.json";
  }
}

/// DSF-2: killed between writing job.json aside and naming it.
TEST_F(DatasetFolderTest, GoesOnAfterWhoWasKilledWhileBeginningIt) {
  const TemporaryFolder folder;
  const fs::path out = folder / "set";
  fs::create_directories(out / "manifest");
  troupe::test::put(out / "manifest" / ".job.json.0123456789abcdef.tmp", "half");
  ASSERT_TRUE(open_dataset(out, config(7), "").ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(out / "manifest"), {}), 1) << "what it left goes";
}

/// What `datagen show` prints would move the cursor.
TEST_F(DatasetFolderTest, ANameThatNoneIsBegunWithIsDamage) {
  const TemporaryFolder folder;
  const fs::path out = folder / "set", job = out / "manifest" / "job.json";
  ASSERT_TRUE(open_dataset(out, config(7), "mine").ok());
  std::string text = troupe::test::bytes_of(job);
  text.replace(text.find("mine"), 4, "\\u001b[2J");
  troupe::test::put(job, text);
  const auto refused = read_dataset(out);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), troupe::ErrorCode::kSerialization);
}

TEST_F(DatasetFolderTest, AManifestOfSomethingElseIsRefused) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "manifest");
  troupe::test::put(folder / "manifest" / "000001.log", "x");
  const auto refused = open_dataset(folder.path(), config(7), "");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), troupe::ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace datagen
