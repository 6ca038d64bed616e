// SFL-1 to SFL-4, TMP-1: a shard is whole under its name or not there; what dead attempts left goes, and nothing else.
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/datagen/files/memory_sinks.h"
#include "apps/datagen/files/nondeterministic_error.h"
#include "apps/datagen/files/shard_file.h"
#include "apps/datagen/files/temporaries.h"
#include "tests/datagen/full_disk.h"
#include "tests/base/temporary_folder.h"

namespace datagen {
namespace {

using troupe::test::TemporaryFolder;
namespace fs = std::filesystem;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

/// FIPS 180-4's own examples.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 hash;
  hash.update(std::string_view("abcdbcdecdefdefgefghfghighij"));
  hash.update(std::string_view("hijkijkljklmklmnlmnomnopnopq"));
  EXPECT_EQ(hex(hash.finish()), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash.finish(), sha256("")) << "it begins anew";
}

ShardFile create(const TemporaryFolder& folder, std::uint32_t attempt = 0) {
  return ShardFile::create({folder.path(), "data/part-0.bin", 3, attempt}).value();
}

/// SFL-1: nothing under its name before publish(); then everything, with its digest.
TEST(ShardFile, IsThereWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const std::string big(700'000, 'x');
  {
    ShardFile file = create(folder);
    EXPECT_TRUE(fs::exists(folder.path() / "data" / ".part-0.bin.3.0.tmp"));
    file.write(bytes("head"));
    file.write(bytes(big));
    file.write(bytes("tail"));
    EXPECT_EQ(file.written(), big.size() + 8);
    EXPECT_FALSE(fs::exists(folder.path() / "data" / "part-0.bin"));
    const PublishedShard published = file.publish().value();
    EXPECT_EQ(published.sha256, sha256("head" + big + "tail"));
    EXPECT_EQ(published.bytes, big.size() + 8);
    EXPECT_FALSE(published.was_there);
  }
  EXPECT_EQ(troupe::test::bytes_of(folder.path() / "data" / "part-0.bin"), "head" + big + "tail");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() / "data"), {}), 1);
}

/// SFL-3.
TEST(ShardFile, LeavesNothingWhenItIsGivenUp) {
  const TemporaryFolder folder;
  {
    ShardFile file = create(folder);
    file.write(bytes("half"));
    const ShardFile moved = std::move(file);
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "data"));
}

/// SFL-2: a second attempt with the same bytes is the same shard.
TEST(ShardFile, KeepsTheSameBytes) {
  const TemporaryFolder folder;
  for (const std::uint32_t attempt : {0u, 1u}) {
    ShardFile file = create(folder, attempt);
    file.write(bytes("same"));
    EXPECT_EQ(file.publish().value().was_there, attempt == 1);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() / "data"), {}), 1);
}

/// SFL-2: one with others names shard and digests; what was there stays.
TEST(ShardFile, RefusesOtherBytes) {
  const TemporaryFolder folder;
  {
    ShardFile first = create(folder);
    first.write(bytes("first"));
    ASSERT_TRUE(first.publish().ok());
    ShardFile second = create(folder, 1);
    second.write(bytes("second"));
    const auto refused = second.publish();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), troupe::ErrorCode::kInvalidArgument);
    const std::string& text = refused.error().message();
    EXPECT_TRUE(text.starts_with("NondeterministicError")) << text;
    EXPECT_NE(dynamic_cast<const NondeterministicError*>(&refused.error()), nullptr);
    const auto sent = NondeterministicError::of(*troupe::Error::make(refused.error().record()));  // NDE-1
    ASSERT_TRUE(sent.has_value());
    EXPECT_EQ(sent->shard(), "data/part-0.bin");
    EXPECT_EQ(sent->was(), hex(sha256("first")));
    EXPECT_EQ(sent->now(), hex(sha256("second")));
    EXPECT_FALSE(NondeterministicError::of(troupe::InvalidArgumentError(text)).has_value()) << "the text is not it";
    for (const std::string& part : {std::string("data/part-0.bin"), hex(sha256("first")), hex(sha256("second"))})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(troupe::test::bytes_of(folder.path() / "data" / "part-0.bin"), "first");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() / "data"), {}), 1);
}

/// SFL-5: what was committed mends a file that was damaged since; anything else does not.
TEST(ShardFile, CommittedBytesTakeADamagedFilesPlace) {
  const TemporaryFolder folder;
  ShardFile first = create(folder);
  troupe::test::put(folder.path() / "data" / "part-0.bin", "fir");
  first.write(bytes("first"));
  EXPECT_FALSE(first.publish(sha256("first")).value().was_there);
  EXPECT_EQ(troupe::test::bytes_of(folder.path() / "data" / "part-0.bin"), "first");
  {
    ShardFile other = create(folder, 1);
    other.write(bytes("other"));
    EXPECT_TRUE(NondeterministicError::of(other.publish(sha256("first")).error()));
  }
  EXPECT_EQ(troupe::test::bytes_of(folder.path() / "data" / "part-0.bin"), "first");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() / "data"), {}), 1);
}

/// SFL-5: with the size that was committed they would pass for the shard ever after.
TEST(ShardFile, OtherBytesThanTheCommittedOnesDoNotTakeAFreeName) {
  const TemporaryFolder folder;
  {
    ShardFile other = create(folder);
    other.write(bytes("other"));
    const auto refused = other.publish(sha256("first"));
    ASSERT_FALSE(refused.ok());
    const auto told = NondeterministicError::of(refused.error());
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->was(), hex(sha256("first")));
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "data"));
}

/// SFL-4, SFL-3: no room.
TEST(ShardFile, AFullDiskIsTyped) {
  const TemporaryFolder folder;
  {
    ShardFile file = create(folder);
    const test::FullDisk full(100'000);
    const std::string big(1'000'000, 'x');
    EXPECT_THROW(file.write(bytes(big)), troupe::OutOfDiskError);
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "data"));
  {
    ShardFile file = create(folder);  // what waits in the buffer meets it at the end
    for (int i = 0; i < 20; ++i) file.write(bytes(std::string(10'000, 'x')));
    const test::FullDisk full(100'000);
    const auto published = file.publish();
    ASSERT_FALSE(published.ok());
    EXPECT_EQ(published.error().code(), troupe::ErrorCode::kOutOfDisk);
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "data"));
}

/// SFL-4.
TEST(ShardFile, AFolderThatCannotBeWrittenIsTyped) {
  const auto nowhere = ShardFile::create({"/proc/no-such-folder", "data/part-0.bin", 1, 0});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code(), troupe::ErrorCode::kRuntimeEnv);
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const bool root = ::geteuid() == 0;  // who may write everywhere: somebody else tries
  ASSERT_TRUE(!root || ::seteuid(65'534) == 0);
  const auto refused = ShardFile::create({folder.path(), "part-0.bin", 1, 0});
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), troupe::ErrorCode::kRuntimeEnv);
}

/// SFL-4: it is the folder that cannot be made, and why, not the file in it.
TEST(ShardFile, AFolderThatCannotBeMadeIsSaid) {
  const TemporaryFolder folder;
  fs::create_directory_symlink(folder / "nowhere", folder / "data");
  const auto refused = ShardFile::create({folder.path(), "data/part-0.bin", 1, 0});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), troupe::ErrorCode::kRuntimeEnv);
  EXPECT_NE(refused.error().message().find("cannot make the folder"), std::string::npos) << refused.error().message();
}

/// A pipe that nobody writes is no file of ours, and is not waited for.
TEST(ShardFile, APipeIsNoShard) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "part-0.bin").c_str(), 0600), 0);
  EXPECT_EQ(digest_of_file(folder / "part-0.bin").error().code(), troupe::ErrorCode::kInvalidArgument);
  ShardFile file = ShardFile::create({folder.path(), "part-0.bin", 3, 0}).value();
  file.write(bytes("x"));
  EXPECT_EQ(file.publish().error().code(), troupe::ErrorCode::kInvalidArgument);
}

TEST(Sinks, KeepBytesAndDigests) {
  MemorySink memory;
  DigestSink digest;
  for (ByteSink* sink : {static_cast<ByteSink*>(&memory), static_cast<ByteSink*>(&digest)}) {
    sink->write(bytes("ab"));
    sink->write(bytes("c"));
    EXPECT_EQ(sink->written(), 3u);
  }
  EXPECT_EQ(sha256(memory.bytes()), sha256("abc"));
  EXPECT_EQ(digest.finish(), sha256("abc"));
}

/// TMP-1.
TEST(Temporaries, OnlyOursOfOldEpochsGo) {
  EXPECT_EQ(epoch_of_temporary(".part-7.parquet.12.3.tmp"), 12u);
  for (const char* other : {"part-7.12.3.tmp", ".part-7.12.tmp", ".12.3.tmp", ".part.12.3", ".part.x.3.tmp", ".tmp",
                            ".part.12.tmp.4711", ".part..3.tmp"})
    EXPECT_EQ(epoch_of_temporary(other), std::nullopt) << other;
  const TemporaryFolder folder;
  for (const char* name : {".a.1.0.tmp", ".b.2.7.tmp", ".c.3.0.tmp", "a", ".hidden", "b.2.0.tmp"})
    troupe::test::put(folder / name, "x");
  EXPECT_EQ(sweep_temporaries({folder.path(), folder / "missing"}, 2).value(), 2u);
  EXPECT_EQ(folder.files(), 4u);
  EXPECT_TRUE(fs::exists(folder / ".c.3.0.tmp"));
  for (const char* name : {"result.json.tmp.4711", ".tmp.1", "x.tmp", "x.tmp.", "x.tmp.1a"})
    troupe::test::put(folder / name, "x");
  ASSERT_TRUE(sweep_asides({folder.path(), folder / "missing"}).ok());  // TMP-2
  EXPECT_EQ(folder.files(), 8u);
  EXPECT_FALSE(fs::exists(folder / "result.json.tmp.4711"));
}

}  // namespace
}  // namespace datagen
