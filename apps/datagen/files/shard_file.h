// ShardFile: a shard on its way to disk: written aside, hashed as it passes, synced, renamed.
//
//   data/.part-00007.parquet.3.0.tmp  ──publish()──▶  data/part-00007.parquet
//         epoch of the run ──┘ └── attempt
//
// One thread at a time. Thread and process of another attempt at the same shard do not disturb this one: it has another
// name until it is published.
//
// SFL-1  A file under its own name is whole and synced; what is there under it is replaced by SFL-5 alone.
// SFL-2  When the name is taken, its bytes are compared with ours by their digests: the same ones are kept and ours are
//        dropped; others are a NondeterministicError, which names shard and digests.
// SFL-3  An unpublished file is removed when its ShardFile goes, whatever went wrong.
// SFL-4  No room is an OutOfDiskError, another failure of the file system a RuntimeEnvError.
// SFL-5  Bytes that were committed take the place of a file with other ones: it was damaged since. Others than those do
//        not get the name, whether there is a file or not.
// SFL-6  The file aside is made anew: what lies under its name, a link as well, is removed and not written to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/common/descriptor.h"
#include "apps/datagen/files/byte_sink.h"
#include "apps/datagen/files/sha256.h"

namespace datagen {

struct ShardPlace {
  std::filesystem::path folder;  ///< of the data set
  std::string name;              ///< of the shard, below it
  std::uint64_t epoch = 0;
  std::uint32_t attempt = 0;

  [[nodiscard]] std::filesystem::path file() const { return folder / name; }
  [[nodiscard]] std::filesystem::path aside() const;
};

struct PublishedShard {
  Digest sha256{};
  std::uint64_t bytes = 0;
  bool was_there = false;  ///< SFL-2
};

class ShardFile final : public ByteSink {
 public:
  /// Makes the folder of the file where it is missing.
  static troupe::Result<ShardFile> create(ShardPlace place);
  ~ShardFile() override;
  ShardFile(ShardFile&&) noexcept = default;
  ShardFile& operator=(ShardFile&&) = delete;

  void write(std::span<const std::byte> bytes) override;
  [[nodiscard]] std::uint64_t written() const override { return written_; }

  /// Once, at the end. Its folder is not synced: that is for who commits it (sync_folder).
  /// `committed`: what the manifest has of the shard, where it has it (SFL-5).
  troupe::Result<PublishedShard> publish(const std::optional<Digest>& committed = {});

 private:
  ShardFile(ShardPlace place, apps::Descriptor file) : place_(std::move(place)), file_(std::move(file)) {}
  void put(std::span<const std::byte> bytes);
  troupe::Result<PublishedShard> beside_existing(const PublishedShard& ours, const std::optional<Digest>& committed);

  ShardPlace place_;
  apps::Descriptor file_;  // none: published, or moved from
  Sha256 hash_;
  std::vector<std::byte> buffer_;
  std::uint64_t written_ = 0;
};

/// RuntimeEnvError: the folder cannot be synced.
troupe::Status sync_folder(const std::filesystem::path& folder);

struct FileDigest {
  Digest sha256{};
  std::uint64_t bytes = 0;
};
/// NotFoundError when there is no such file, InvalidArgumentError when it is no plain file.
[[nodiscard]] troupe::Result<FileDigest> digest_of_file(const std::filesystem::path& path);

}  // namespace datagen
