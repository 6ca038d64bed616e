// CRD-2, DRN-1, and what arrives from a node that does not share the folder: nothing is kept that is not what was sent.
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <troupe/troupe.h>

#include "apps/datagen/config/job.h"
#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/generators/generator_registry.h"
#include "apps/datagen/run/coordinator.h"
#include "apps/datagen/run/dataset_run.h"
#include "tests/base/temporary_folder.h"
#include "tests/datagen/tiny.h"

namespace datagen {
namespace {

using troupe::test::TemporaryFolder;
namespace fs = std::filesystem;

JobConfig config() {
  return configure({.generator = "numbers", .format = "lines", .samples = 30, .seed = 7, .isa = "portable"}).value();
}

Coordinator begin(const TemporaryFolder& folder) {
  Coordinator out({.config = config().canonical(), .out = folder.path().string(), .run = 1});
  EXPECT_EQ(out.begin({"data"}).shards, 0u);
  return out;
}

/// The first shard with the hash of `said`; travelled with the bytes `sent`, unless there are none.
CommitEntry entry(std::string_view said, std::string_view sent = {}) {
  CommitEntry out{.record = {.name = "data/part-00000.txt",
                             .range = {0, 10},
                             .rows = 10,
                             .bytes = said.size(),
                             .sha256 = sha256(said)}};
  if (sent.empty()) return out;
  troupe::ArrayBuilder<std::uint8_t> memory(sent.size());
  std::ranges::copy(sent, memory.span().begin());
  out.travelled = true;
  out.bytes = std::move(memory).seal();
  return out;
}

std::vector<ShardRecord> committed(const TemporaryFolder& folder) {
  return read_manifest(folder / "manifest", {.job = config().hash(), .shards = 3}).value().manifest.in_order();
}

/// CRD-2.
TEST(Coordinator, ACommitThatComesAgainChangesNothing) {
  const TemporaryFolder folder;
  Coordinator coordinator = begin(folder);
  EXPECT_EQ(coordinator.commit({entry("abcd")}, 1), 1u);
  EXPECT_EQ(coordinator.commit({entry("abcd")}, 1), 1u);
  EXPECT_THROW(coordinator.commit({entry("abce")}, 1), troupe::Error);
  ASSERT_EQ(committed(folder).size(), 1u);
  EXPECT_EQ(committed(folder)[0].sha256, sha256("abcd"));
}

/// What was damaged on its way has no name, so that the shard can be sent again.
TEST(Coordinator, BytesThatArriveOtherwiseAreNotKept) {
  const TemporaryFolder folder;
  Coordinator coordinator = begin(folder);
  EXPECT_THROW(coordinator.commit({entry("abcd", "abce")}, 1), troupe::Error);
  EXPECT_TRUE(fs::is_empty(folder / "data"));
  EXPECT_TRUE(committed(folder).empty());
  EXPECT_EQ(coordinator.commit({entry("abcd", "abcd")}, 1), 1u);
  EXPECT_EQ(troupe::test::bytes_of(folder.path() / "data" / "part-00000.txt"), "abcd");
}

/// DRN-1, also where what is thrown is none of Troupe's errors.
TEST(DatasetRun, AnExceptionOfWhoListensLeavesNothingBehind) {
  const TemporaryFolder folder;
  const fs::path out = folder / "set";
  DatasetRun run(out, open_dataset(out, config(), "").value(), {},
                 {.progress = [](const RunReport&) { throw std::runtime_error("the terminal is gone"); },
                  .note = [](const std::string&) { throw std::logic_error("it is still gone"); }});
  EXPECT_THROW(run.run(), std::runtime_error);
  for (const auto& entry : fs::directory_iterator(out / "manifest"))
    EXPECT_NE(entry.path().extension(), ".token") << entry.path();
  DatasetRun again(out, open_dataset(out, config(), "").value(), {}, {});
  again.run();
  EXPECT_TRUE(again.report().finished());
}

/// A newer run that begins while this one writes what is beside the shards takes it away under its hands: that is said.
TEST(DatasetRun, WhoIsTakenOverFromAtTheVeryEndSaysSo) {
  const TemporaryFolder folder;
  const fs::path out = folder / "set";
  const auto take_over = [&](const RunReport& report) {
    if (report.shards_done() < report.shards || fs::exists(out / "manifest" / "000002.log")) return;
    const Coordinator other({.config = config().canonical(), .out = out.string(), .run = 1, .epoch_before = 1});
    fs::resize_file(out / "manifest" / "000002.log", kJournalHead);
  };
  DatasetRun run(out, open_dataset(out, config(), "").value(), {}, {.progress = take_over});
  try {
    run.run();
    FAIL() << "the manifest has no shards";
  } catch (const troupe::RuntimeEnvError& error) {
    EXPECT_NE(std::string(error.what()).find("another run has taken over"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(run.report().taken_over);
}

}  // namespace
}  // namespace datagen

int main(int argc, char** argv) {
  datagen::register_generator(datagen::test::numbers()).value();
  datagen::register_format(datagen::test::lines()).value();
  ::testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  return troupe::run(argc, argv, {.cpus = 1}, [] { return RUN_ALL_TESTS(); });
}
