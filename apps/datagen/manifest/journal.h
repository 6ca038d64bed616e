// Journal: where the manifest lies on disk. An append-only file an epoch, below OUT/manifest; who opens one to write
// begins a new epoch, and from then on all older ones are over.
//
//   000001.log ── take_over() ──▶ 000002.log: the records of epoch 1 in one piece, then what epoch 2 commits
//                 written aside, synced, published under a name that was free: of two successors one wins
//
// One thread at a time; several processes may try at the same time.
//
// DJR-1  commit() returns when the records are on disk, or it has changed nothing that a reader sees: what a failed
//        write left is cut off again.
// DJR-2  Records that were committed (commit() returned well) are in every later epoch.
// DJR-3  Once a newer epoch exists, commit() is a RuntimeEnvError that says so, and for readers nothing was added.
// DJR-4  Readers take the greatest epoch alone. Damage keeps the good prefix and is reported; a newer version or
//        another job is an InvalidArgumentError. Of a file no more is read than the plan's shards can be.
// DJR-5  A later life of a coordinator goes on only where no other run has come between (`successor_of_itself`).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/common/descriptor.h"
#include "apps/datagen/manifest/journal_format.h"
#include "apps/datagen/manifest/manifest.h"

namespace datagen {

/// Whose journal it is; what it has to be when it is read.
struct JournalOwner {
  Digest job{};
  std::uint64_t shards = 0;
};

struct ReadManifest {
  std::uint64_t epoch = 0, run = 0;  ///< 0: nothing there yet
  Manifest manifest;
  std::vector<std::string> notes;  ///< a line each about damage
};

/// DJR-4. `folder` is OUT/manifest; a missing or empty one is epoch 0.
[[nodiscard]] troupe::Result<ReadManifest> read_manifest(const std::filesystem::path& folder,
                                                         const JournalOwner& owner);

/// Of the greatest epoch, by its head alone; zeros when there is none, or its head is damaged.
struct NewestEpoch {
  std::uint64_t epoch = 0, run = 0;
};
[[nodiscard]] troupe::Result<NewestEpoch> newest_epoch(const std::filesystem::path& folder);

class Journal {
 public:
  struct Opened;
  struct TakeOver {
    JournalOwner owner;
    std::uint64_t run = 0;      ///< of the one that takes over
    bool successor_of_itself = false;  ///< DJR-5: only where the last epoch is of this run, or still `epoch_before`
    std::uint64_t epoch_before = 0;    ///< the greatest one when the run began: no life of it has published then
  };
  /// Begins the next epoch. When another one is quicker it tries anew, behind that one. InvalidArgumentError: there is
  /// no next one (kEpochMax).
  static troupe::Result<Opened> take_over(const std::filesystem::path& folder, const TakeOver& take);

  [[nodiscard]] std::uint64_t epoch() const { return head_.epoch; }
  /// DJR-1 to DJR-3. OutOfDiskError: try again when there is room.
  troupe::Status commit(std::span<const ShardRecord> records);

 private:
  Journal(std::filesystem::path folder, JournalHead head, apps::Descriptor file, std::uint64_t size)
      : folder_(std::move(folder)), head_(head), file_(std::move(file)), size_(size) {}
  troupe::Status append(std::span<const std::byte> bytes);
  troupe::Status check_newest() const;
  troupe::Status take_late_records(std::uint64_t good_bytes, ReadManifest& before);
  void remove_older() const;

  std::filesystem::path folder_;
  JournalHead head_;
  apps::Descriptor file_;
  std::uint64_t size_ = 0;  // what is on disk
};

struct Journal::Opened {
  Journal journal;
  ReadManifest before;  ///< what it began with; `epoch` and `run` of the one before
};

}  // namespace datagen
