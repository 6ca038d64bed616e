// DJR-2, DJR-3 at the very steps: a coordinator that stands still between its look for a successor and its write, and
// one that commits while its successor is about to publish. The C library's calls are this program's own, so that a
// step can be stopped at.
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/datagen/manifest/journal.h"
#include "tests/base/temporary_folder.h"

namespace {

/// What happens first, once.
std::function<void()> before_write, before_link;

void happen(std::function<void()>& what) {
  if (what) std::exchange(what, nullptr)();
}

}  // namespace

extern "C" {
ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t at) {
  happen(before_write);
  return ::syscall(SYS_pwrite64, fd, bytes, size, at);
}
int link(const char* from, const char* to) noexcept {
  happen(before_link);
  return static_cast<int>(::syscall(SYS_link, from, to));
}
}

namespace datagen {
namespace {

using troupe::test::TemporaryFolder;

std::vector<ShardRecord> records(std::uint64_t begin, std::uint64_t end) {
  std::vector<ShardRecord> out;
  for (; begin < end; ++begin) {
    const std::string name = fmt::format("data/part-{}.txt", begin);
    out.push_back(
        {.name = name, .range = {10 * begin, 10 * begin + 10}, .rows = 10, .bytes = 9, .sha256 = sha256(name)});
  }
  return out;
}

JournalOwner owner() { return {.job = sha256("job"), .shards = 100}; }

Journal::Opened take_over(const TemporaryFolder& folder, std::uint64_t run) {
  return Journal::take_over(folder / "manifest", {.owner = owner(), .run = run}).value();
}

std::vector<ShardRecord> read(const TemporaryFolder& folder) {
  return read_manifest(folder / "manifest", owner()).value().manifest.in_order();
}

/// DJR-3: nobody was there when it looked before its write. Its records are in a journal that nobody reads any more, so
/// the commit must not be answered.
TEST(Succession, ACommitThatIsOvertakenBeforeItsWriteIsRefused) {
  const TemporaryFolder folder;
  Journal::Opened first = take_over(folder, 1);
  ASSERT_TRUE(first.journal.commit(records(0, 2)).ok());
  bool taken_over = false;
  before_write = [&] { taken_over = take_over(folder, 2).journal.epoch() == 2; };
  const troupe::Status status = first.journal.commit(records(2, 4));
  ASSERT_TRUE(taken_over);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("taken over"), std::string::npos);
  EXPECT_EQ(read(folder), records(0, 2));
}

/// DJR-3: who is over already writes nothing.
TEST(Succession, AnOlderEpochDoesNotWrite) {
  const TemporaryFolder folder;
  Journal::Opened first = take_over(folder, 1);
  const Journal::Opened second = take_over(folder, 2);
  bool wrote = false;
  before_write = [&] { wrote = true; };
  EXPECT_FALSE(first.journal.commit(records(0, 2)).ok());
  before_write = nullptr;
  EXPECT_FALSE(wrote);
  EXPECT_TRUE(read(folder).empty());
}

/// DJR-2: answered before the successor's epoch was there to see, after the successor had read.
TEST(Succession, ACommitDuringTheSuccessionIsTakenAlong) {
  const TemporaryFolder folder;
  Journal::Opened first = take_over(folder, 1);
  ASSERT_TRUE(first.journal.commit(records(0, 2)).ok());
  bool committed = false;
  before_link = [&] { committed = first.journal.commit(records(2, 4)).ok(); };
  const Journal::Opened second = take_over(folder, 2);
  ASSERT_TRUE(committed);
  EXPECT_EQ(second.before.manifest.in_order(), records(0, 4));
  EXPECT_EQ(read(folder), records(0, 4));
}

/// The same, when the successor's successor is the quicker one.
TEST(Succession, ACommitBeforeTwoSuccessorsIsTakenAlongByTheLast) {
  const TemporaryFolder folder;
  Journal::Opened first = take_over(folder, 1);
  ASSERT_TRUE(first.journal.commit(records(0, 2)).ok());
  bool committed = false;
  before_link = [&] {
    committed = first.journal.commit(records(2, 4)).ok();
    take_over(folder, 3);
  };
  EXPECT_EQ(take_over(folder, 2).journal.epoch(), 3u) << "epoch 2 was taken by then";
  ASSERT_TRUE(committed);
  EXPECT_EQ(read(folder), records(0, 4));
}

}  // namespace
}  // namespace datagen
