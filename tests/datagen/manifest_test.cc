// JRF, MNF, DJR, MDN: what was committed stays, whatever is torn, damaged, newer, stale or another job's.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include "apps/datagen/files/nondeterministic_error.h"
#include "apps/datagen/manifest/journal.h"
#include "apps/datagen/manifest/made_notes.h"
#include "tests/datagen/full_disk.h"
#include "tests/base/temporary_folder.h"

namespace datagen {
namespace {

using troupe::test::TemporaryFolder;
namespace fs = std::filesystem;

ShardRecord record(std::uint64_t shard) {
  const std::string name = fmt::format("data/part-{:05}.jsonl", shard);
  return {.name = name,
          .range = {10 * shard, 10 * shard + 10},
          .rows = 10 + shard % 3,
          .bytes = 1000 + shard,
          .sha256 = sha256(name),
          .attempt = static_cast<std::uint32_t>(shard % 2)};
}

std::vector<ShardRecord> records(std::uint64_t begin, std::uint64_t end) {
  std::vector<ShardRecord> out;
  for (; begin < end; ++begin) out.push_back(record(begin));
  return out;
}

JournalOwner owner(std::uint64_t shards = 100) { return {.job = sha256("job"), .shards = shards}; }

Journal::Opened take_over(const TemporaryFolder& folder, std::uint64_t run = 1) {
  return Journal::take_over(folder / "manifest", {.owner = owner(), .run = run}).value();
}

std::vector<ShardRecord> read(const TemporaryFolder& folder) {
  return read_manifest(folder / "manifest", owner()).value().manifest.in_order();
}

fs::path file(const TemporaryFolder& folder, std::uint64_t epoch) {
  return folder / "manifest" / fmt::format("{:06}.log", epoch);
}

/// MNF-2: order and attempts are not in it, everything else is.
TEST(Manifest, DigestIsOfTheShardsAlone) {
  std::vector<ShardRecord> all = records(0, 50);
  const auto digest_of = [](const std::vector<ShardRecord>& list) {
    Manifest manifest;
    for (const ShardRecord& r : list) EXPECT_TRUE(manifest.add(r).value());
    return manifest.digest();
  };
  const Digest digest = digest_of(all);
  std::ranges::shuffle(all, std::minstd_rand(7));
  for (ShardRecord& r : all) r.attempt += 5;
  EXPECT_EQ(digest_of(all), digest);
  for (const auto& change : std::vector<void (*)(ShardRecord&)>{
           [](ShardRecord& r) { r.rows += 1; }, [](ShardRecord& r) { r.bytes += 1; },
           [](ShardRecord& r) { r.range.end += 1; }, [](ShardRecord& r) { r.name += "x"; },
           [](ShardRecord& r) { r.sha256[31] ^= std::byte{1}; }}) {
    std::vector<ShardRecord> changed = all;
    change(changed[20]);
    EXPECT_NE(digest_of(changed), digest);
  }
  all.pop_back();
  EXPECT_NE(digest_of(all), digest);
}

/// MNF-1.
TEST(Manifest, AShardIsThereOnce) {
  Manifest manifest;
  EXPECT_TRUE(manifest.add(record(3)).value());
  ShardRecord again = record(3);
  again.attempt = 9;
  EXPECT_FALSE(manifest.add(again).value());
  EXPECT_EQ(manifest.size(), 1u);
  EXPECT_EQ(manifest.rows(), record(3).rows);
  again.sha256 = sha256("other");
  const auto refused = manifest.add(again);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(NondeterministicError::of(refused.error()));
}

/// The example of docs/datagen.md, byte by byte: a journal of today is read tomorrow.
TEST(Journal, IsWhatTheDocumentationShows) {
  JournalHead head{.epoch = 3, .run = 0x1122334455667788, .job = {}, .shards = 10};
  head.job.fill(std::byte{0xaa});
  ShardRecord shard{.name = "data/part-00004.txt", .range = {40, 50}, .rows = 10, .bytes = 241, .attempt = 1};
  shard.sha256.fill(std::byte{0xbb});
  std::vector<std::byte> bytes;
  append_head(bytes, head);
  append_record(bytes, shard, head.epoch);
  std::string lines;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    lines += fmt::format("{:02x}{}", std::to_integer<unsigned>(bytes[i]), i % 16 == 15 ? "\n" : " ");
  EXPECT_EQ(lines, "54 52 50 4d 41 4e 49 46 01 00 00 00 50 00 00 00\n"
                   "03 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11\n"
                   "aa aa aa aa aa aa aa aa aa aa aa aa aa aa aa aa\n"
                   "aa aa aa aa aa aa aa aa aa aa aa aa aa aa aa aa\n"
                   "0a 00 00 00 00 00 00 00 b2 fd 6e 3b 12 c2 e8 8e\n"
                   "60 00 00 00 01 00 00 00 6b 67 5d 74 a4 9d 1b 68\n"
                   "28 00 00 00 00 00 00 00 32 00 00 00 00 00 00 00\n"
                   "0a 00 00 00 00 00 00 00 f1 00 00 00 00 00 00 00\n"
                   "bb bb bb bb bb bb bb bb bb bb bb bb bb bb bb bb\n"
                   "bb bb bb bb bb bb bb bb bb bb bb bb bb bb bb bb\n"
                   "01 00 00 00 13 00 00 00 64 61 74 61 2f 70 61 72\n"
                   "74 2d 30 30 30 30 34 2e 74 78 74 00 00 00 00 00\n");
  const JournalContents contents = parse_journal(bytes).value();
  EXPECT_EQ(contents.head, head);
  ASSERT_EQ(contents.records.size(), 1u);
  EXPECT_EQ(contents.records[0], shard);
}

/// DJR-1, DJR-2: over many epochs, with every record of every one.
TEST(Journal, WhatIsCommittedIsInEveryLaterEpoch) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_manifest(folder / "manifest", owner()).value().epoch, 0u);
  for (std::uint64_t life = 0; life < 5; ++life) {
    Journal::Opened opened = take_over(folder, life + 1);
    EXPECT_EQ(opened.journal.epoch(), life + 1);
    EXPECT_EQ(opened.before.manifest.in_order(), records(0, 4 * life));
    ASSERT_TRUE(opened.journal.commit(records(4 * life, 4 * life + 3)).ok());
    ASSERT_TRUE(opened.journal.commit(records(4 * life + 3, 4 * life + 4)).ok());
    EXPECT_EQ(read(folder), records(0, 4 * life + 4));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "manifest"), {}), 1) << "older epochs go";
}

/// JRF-1: torn anywhere, the whole records before are kept, and the rest is reported.
TEST(Journal, ATornTailCostsItsRecordAlone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(take_over(folder).journal.commit(records(0, 3)).ok());
  const std::string whole = troupe::test::bytes_of(file(folder, 1));
  const std::size_t size = (whole.size() - kJournalHead) / 3;
  ASSERT_EQ((whole.size() - kJournalHead) % 3, 0u);
  for (std::size_t cut = kJournalHead; cut < whole.size(); ++cut) {
    troupe::test::put(file(folder, 1), whole.substr(0, cut));
    const ReadManifest found = read_manifest(folder / "manifest", owner()).value();
    const std::size_t good = (cut - kJournalHead) / size;
    ASSERT_EQ(found.manifest.in_order(), records(0, good)) << cut;
    ASSERT_EQ(found.notes.size(), (cut - kJournalHead) % size == 0 ? 0u : 1u);
  }
  troupe::test::put(file(folder, 1), whole.substr(0, whole.size() - 5));
  Journal::Opened next = take_over(folder);
  ASSERT_EQ(next.before.notes.size(), 1u);
  EXPECT_NE(next.before.notes[0].find(fmt::format("{} bytes from byte {}", size - 5, kJournalHead + 2 * size)),
            std::string::npos)
      << next.before.notes[0];
  ASSERT_TRUE(next.journal.commit(records(2, 4)).ok());
  EXPECT_EQ(read(folder), records(0, 4));
}

/// JRF-1: a flipped bit anywhere in the records keeps what stands before it.
TEST(Journal, ADamagedRecordKeepsThePrefix) {
  const TemporaryFolder folder;
  ASSERT_TRUE(take_over(folder).journal.commit(records(0, 3)).ok());
  const std::string whole = troupe::test::bytes_of(file(folder, 1));
  const std::size_t size = (whole.size() - kJournalHead) / 3;
  for (std::size_t at = kJournalHead; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    troupe::test::put(file(folder, 1), damaged);
    const ReadManifest found = read_manifest(folder / "manifest", owner()).value();
    ASSERT_EQ(found.manifest.in_order(), records(0, (at - kJournalHead) / size)) << at;
    ASSERT_EQ(found.notes.size(), 1u) << at;
  }
}

/// JRF-1: a damaged head costs everything, says so, and the job goes on.
TEST(Journal, ADamagedHeadIsSaid) {
  const TemporaryFolder folder;
  ASSERT_TRUE(take_over(folder).journal.commit(records(0, 3)).ok());
  std::string whole = troupe::test::bytes_of(file(folder, 1));
  whole[30] = static_cast<char>(whole[30] ^ 1);
  troupe::test::put(file(folder, 1), whole);
  Journal::Opened next = take_over(folder);
  EXPECT_EQ(next.before.manifest.size(), 0u);
  ASSERT_EQ(next.before.notes.size(), 1u);
  EXPECT_EQ(next.journal.epoch(), 2u);
  ASSERT_TRUE(next.journal.commit(records(0, 2)).ok());
  EXPECT_EQ(read(folder), records(0, 2));
}

/// DJR-4, JRF-2: a newer version is named as such; another job's folder is refused.
TEST(Journal, NewerVersionsAndOtherJobsAreRefused) {
  const TemporaryFolder folder;
  ASSERT_TRUE(take_over(folder).journal.commit(records(0, 3)).ok());
  const auto other = read_manifest(folder / "manifest", {.job = sha256("other"), .shards = 100});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code(), troupe::ErrorCode::kInvalidArgument);
  EXPECT_NE(other.error().message().find("another job"), std::string::npos);
  EXPECT_FALSE(Journal::take_over(folder / "manifest", {.owner = owner(99), .run = 1}).ok());

  std::string newer = troupe::test::bytes_of(file(folder, 1)).substr(0, kJournalHead);
  newer[8] = 9;
  const std::uint64_t checksum = XXH64(newer.data(), newer.size() - 8, 0);
  newer.replace(newer.size() - 8, 8, reinterpret_cast<const char*>(&checksum), 8);
  troupe::test::put(file(folder, 1), newer);
  const auto refused = read_manifest(folder / "manifest", owner());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), troupe::ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("newer version, 9"), std::string::npos) << refused.error().message();
}

/// DJR-3: who was taken over from commits nothing more, and says so.
TEST(Journal, AnOlderEpochIsStale) {
  const TemporaryFolder folder;
  Journal::Opened first = take_over(folder, 1);
  ASSERT_TRUE(first.journal.commit(records(0, 2)).ok());
  Journal::Opened second = take_over(folder, 2);
  const troupe::Status stale = first.journal.commit(records(2, 4));
  ASSERT_FALSE(stale.ok());
  EXPECT_EQ(stale.error().code(), troupe::ErrorCode::kRuntimeEnv);
  EXPECT_NE(stale.error().message().find("another coordinator has taken over"), std::string::npos);
  EXPECT_EQ(read(folder), records(0, 2));
  ASSERT_TRUE(second.journal.commit(records(4, 6)).ok());
  EXPECT_EQ(read(folder).size(), 4u);
}

/// Numbers that nobody counts to: they are no epochs, or there is none after them, which is said.
TEST(Journal, NamesOfImpossibleEpochsAreNotFollowed) {
  const TemporaryFolder folder;
  take_over(folder);
  for (const char* name : {"18446744073709551615.log", "9223372036854775807.log"})
    troupe::test::put(folder / "manifest" / name, "x");
  EXPECT_EQ(newest_epoch(folder / "manifest").value().epoch, 1u);
  Journal::Opened next = take_over(folder);
  EXPECT_EQ(next.journal.epoch(), 2u);
  EXPECT_TRUE(next.journal.commit(records(0, 2)).ok());
  troupe::test::put(file(folder, kEpochMax), "x");
  const auto refused = Journal::take_over(folder / "manifest", {.owner = owner(), .run = 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), troupe::ErrorCode::kInvalidArgument);
}

/// DJR-4: a file with a hole says that it has more bytes than there is memory.
TEST(Journal, NoMoreIsReadThanThePlanCanBe) {
  const TemporaryFolder folder;
  ASSERT_TRUE(take_over(folder).journal.commit(records(0, 3)).ok());
  std::filesystem::resize_file(file(folder, 1), std::uintmax_t{1} << 43);
  const ReadManifest read = read_manifest(folder / "manifest", owner()).value();
  EXPECT_EQ(read.manifest.in_order(), records(0, 3));
  EXPECT_EQ(read.notes.size(), 1u);
  EXPECT_EQ(take_over(folder).before.manifest.in_order(), records(0, 3));
}

/// DJR-5: the next life of the same run follows itself, and nobody else.
TEST(Journal, ALifeFollowsItsOwnRunOnly) {
  const TemporaryFolder folder;
  const auto again = [&](std::uint64_t run) {
    return Journal::take_over(folder / "manifest", {.owner = owner(), .run = run, .successor_of_itself = true});
  };
  ASSERT_TRUE(take_over(folder, 1).journal.commit(records(0, 2)).ok());
  ASSERT_TRUE(again(1).ok());
  take_over(folder, 2);
  const auto refused = again(1);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("another coordinator has taken over"), std::string::npos);
  EXPECT_TRUE(again(2).ok());
}

/// DJR-5: a life that died before it had published leaves nothing to follow, but the epoch before the run.
TEST(Journal, ALifeThatDiedBeforePublishingIsFollowed) {
  const TemporaryFolder folder;
  const auto again = [&](std::uint64_t run, std::uint64_t before) {
    return Journal::take_over(
        folder / "manifest", {.owner = owner(), .run = run, .successor_of_itself = true, .epoch_before = before});
  };
  EXPECT_TRUE(again(1, 0).ok());
  EXPECT_TRUE(again(2, 1).ok());
  EXPECT_FALSE(again(3, 1).ok()) << "another run has come between";
  const NewestEpoch newest = newest_epoch(folder / "manifest").value();
  EXPECT_EQ(newest.epoch, 2u);
  EXPECT_EQ(newest.run, 2u);
  EXPECT_EQ(newest_epoch(folder / "none").value().epoch, 0u);
}

/// DJR-2: a record that comes between a successor's reading and its publishing is not lost. The old journal's file is
/// written to by hand where no test could be quick enough.
TEST(Journal, LateRecordsAreTakenAlong) {
  const TemporaryFolder folder;
  ASSERT_TRUE(take_over(folder).journal.commit(records(0, 2)).ok());
  std::vector<std::byte> late;
  append_record(late, record(2), 1);
  const std::string torn(reinterpret_cast<const char*>(late.data()), late.size());
  const std::string whole = troupe::test::bytes_of(file(folder, 1));
  troupe::test::put(file(folder, 1), whole + torn.substr(0, 20));
  EXPECT_EQ(read_manifest(folder / "manifest", owner()).value().notes.size(), 1u);
  troupe::test::put(file(folder, 1), whole + torn);
  const Journal::Opened next = take_over(folder);
  EXPECT_TRUE(next.before.notes.empty());
  EXPECT_EQ(read(folder), records(0, 3));
}

/// DJR-2: a successor that died between publishing and taking them along left them in the file before its own.
TEST(Journal, RecordsOfAnUnfinishedSuccessionAreKept) {
  const TemporaryFolder folder;
  ASSERT_TRUE(take_over(folder, 1).journal.commit(records(0, 2)).ok());
  std::vector<std::byte> half;
  append_head(half, {.epoch = 2, .run = 2, .job = owner().job, .shards = owner().shards});
  append_record(half, record(0), 2);
  troupe::test::put(file(folder, 2), std::string(reinterpret_cast<const char*>(half.data()), half.size()));
  EXPECT_EQ(read(folder), records(0, 1)) << "readers take the greatest epoch alone";
  EXPECT_EQ(take_over(folder, 3).journal.epoch(), 3u);
  EXPECT_EQ(read(folder), records(0, 2));
}

/// DJR-1: after a full disk the journal is as before, and goes on when there is room.
TEST(Journal, AFullDiskChangesNothing) {
  const TemporaryFolder folder;
  Journal::Opened opened = take_over(folder);
  ASSERT_TRUE(opened.journal.commit(records(0, 2)).ok());
  const std::string before = troupe::test::bytes_of(file(folder, 1));
  {
    const test::FullDisk full(before.size() + 100);
    const troupe::Status status = opened.journal.commit(records(2, 8));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), troupe::ErrorCode::kOutOfDisk);
    const auto refused = Journal::take_over(folder / "manifest", {.owner = owner(), .run = 2});
    ASSERT_TRUE(refused.ok() || refused.error().code() == troupe::ErrorCode::kOutOfDisk);
  }
  EXPECT_EQ(read(folder), records(0, 2));
  Journal::Opened next = take_over(folder, 3);
  ASSERT_TRUE(next.journal.commit(records(2, 8)).ok());
  EXPECT_EQ(read(folder), records(0, 8));
  for (const auto& entry : fs::directory_iterator(folder / "manifest"))
    EXPECT_EQ(entry.path().extension(), ".log") << "no aside is left: " << entry.path();
}

/// DJR-3 between processes: one is stopped before its commit, another takes over, the first goes on and is refused.
TEST(Journal, AStoppedProcessIsFencedOff) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Journal::Opened opened = take_over(folder, 1);
    bool good = opened.journal.commit(records(0, 2)).ok();
    (void)!::write(ready[1], "x", 1);
    ::raise(SIGSTOP);
    const troupe::Status status = opened.journal.commit(records(2, 4));
    good = good && !status.ok() && status.error().message().find("taken over") != std::string::npos;
    ::_exit(good ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  Journal::Opened successor = take_over(folder, 2);
  EXPECT_EQ(successor.before.manifest.in_order(), records(0, 2));
  ASSERT_TRUE(successor.journal.commit(records(4, 6)).ok());
  ::kill(child, SIGCONT);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(read(folder).size(), 4u);
  for (const int fd : ready) ::close(fd);
}

/// DJR-2, DJR-3: many processes at once, each taking over and committing until it is refused: every commit that was
/// answered well is there at the end, and nobody shares an epoch.
TEST(Journal, RacingSuccessorsLoseNothing) {
  const TemporaryFolder folder;
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Which of its records are committed is in a file of its own.
      std::string committed;
      for (std::uint64_t turn = 0; turn < 10; ++turn) {
        const std::uint64_t shard = static_cast<std::uint64_t>(process) * 10 + turn;
        auto opened = Journal::take_over(folder / "manifest", {.owner = owner(), .run = shard + 1});
        if (!opened.ok() && opened.error().message().find("taken over") == std::string::npos) ::_exit(1);
        if (opened.ok() && opened->journal.commit(records(shard, shard + 1)).ok())
          committed += fmt::format("{} ", shard);
      }
      troupe::test::put(folder / fmt::format("committed-{}", process), committed);
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  const ReadManifest found = read_manifest(folder / "manifest", owner()).value();
  EXPECT_GE(found.epoch, 10u);
  for (int process = 0; process < kProcesses; ++process) {
    std::istringstream list(troupe::test::bytes_of(folder / fmt::format("committed-{}", process)));
    for (std::uint64_t shard = 0; list >> shard;)
      EXPECT_NE(found.manifest.find(10 * shard), nullptr) << shard;
  }
}

/// As many records as a large job has come back, every one.
TEST(Journal, AHundredThousandRecords) {
  const TemporaryFolder folder;
  const JournalOwner large = owner(100'000);
  {
    Journal::Opened opened = Journal::take_over(folder / "manifest", {.owner = large, .run = 1}).value();
    ASSERT_TRUE(opened.journal.commit(records(0, 99'999)).ok());
  }
  const auto started = std::chrono::steady_clock::now();
  const Journal::Opened next = Journal::take_over(folder / "manifest", {.owner = large, .run = 2}).value();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  EXPECT_EQ(next.before.manifest.size(), 99'999u);
  RecordProperty("take_over_seconds", fmt::format("{:.3f}", seconds.count()));
  fmt::print("took over {} records in {:.3f} s\n", next.before.manifest.size(), seconds.count());
}

std::vector<ShardRecord> made(const TemporaryFolder& folder, std::uint64_t epoch) {
  std::vector<ShardRecord> out = read_made(folder.path(), epoch, owner());
  std::ranges::sort(out, {}, [](const ShardRecord& each) { return each.range.begin; });
  return out;
}

/// The one file of notes.
fs::path notes_in(const TemporaryFolder& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder.path())) found.push_back(entry.path());
  EXPECT_EQ(found.size(), 1u);
  return found.at(0);
}

TEST(MadeNotes, AreReadAndRemovedUpToAnEpoch) {
  const TemporaryFolder folder;
  for (std::uint64_t shard = 0; shard < 3; ++shard) note_made(folder.path(), 2, owner(), record(shard));
  note_made(folder.path(), 5, owner(), record(7));
  EXPECT_EQ(made(folder, 1), records(0, 0));
  EXPECT_EQ(made(folder, 4), records(0, 3));
  EXPECT_EQ(made(folder, 5).size(), 4u);
  EXPECT_TRUE(read_made(folder.path(), 5, {.job = sha256("another"), .shards = 100}).empty());
  EXPECT_TRUE(read_made(folder.path(), 5, {.job = sha256("job"), .shards = 99}).empty());
  remove_made(folder.path(), 4);
  EXPECT_EQ(made(folder, 5), records(7, 8));
}

/// MDN-2.
TEST(MadeNotes, AreReadOnceAShardAndNoMoreThanThePlanHas) {
  const TemporaryFolder folder;
  for (std::uint64_t shard = 0; shard < 5; ++shard) note_made(folder.path(), 2, owner(5), record(shard));
  note_made(folder.path(), 2, owner(5), record(1));
  const fs::path notes = notes_in(folder);
  for (const char* copy : {"000001.made.a", "000001.made.b"}) fs::copy_file(notes, folder / copy);
  EXPECT_EQ(read_made(folder.path(), 2, owner(5)), records(0, 5));
  note_made(folder.path(), 2, owner(5), record(7));
  EXPECT_EQ(read_made(folder.path(), 2, owner(5)).size(), 5u);
}

/// MDN-1.
TEST(MadeNotes, DamageCostsWhatStandsBehindIt) {
  const TemporaryFolder folder;
  for (std::uint64_t shard = 0; shard < 5; ++shard) note_made(folder.path(), 2, owner(), record(shard));
  const std::uint64_t size = fs::file_size(notes_in(folder));
  fs::resize_file(notes_in(folder), size - 1);
  EXPECT_EQ(made(folder, 2), records(0, 4));
  fs::resize_file(notes_in(folder), kJournalHead - 1);
  EXPECT_TRUE(made(folder, 2).empty());
}

/// A note that does not fit on the disk is left out, and the ones after it are read.
TEST(MadeNotes, AFullDiskCostsTheNoteAlone) {
  const TemporaryFolder folder;
  note_made(folder.path(), 2, owner(), record(0));
  const std::uint64_t size = fs::file_size(notes_in(folder));
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto no_signal = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit low {.rlim_cur = size + 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  note_made(folder.path(), 2, owner(), record(1));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, no_signal);
  EXPECT_EQ(fs::file_size(notes_in(folder)), size);
  note_made(folder.path(), 2, owner(), record(2));
  EXPECT_EQ(made(folder, 2), (std::vector{record(0), record(2)}));
}

}  // namespace
}  // namespace datagen
