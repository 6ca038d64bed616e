// Coordinator: the one who commits. An actor on the driver's node; each of its lives takes a new epoch of the journal
// and goes on from what is in it.
//
// Methods run one at a time.
//
// CRD-1  What commit() answered is in the manifest, its file is on disk, and so is its name in its folder.
// CRD-2  A commit that comes again changes nothing; with other bytes it is a NondeterministicError.
// CRD-3  A life that finds another run's epoch is refused: "another coordinator has taken over".
// CRD-4  Of what an earlier run made and did not commit, begin() commits what has the bytes that were noted of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/datagen/config/plan.h"
#include "apps/datagen/config/shard_names.h"
#include "apps/datagen/manifest/journal.h"
#include "apps/datagen/run/messages.h"

namespace datagen {

struct CoordinatorOptions {
  std::string config = {};     ///< JobConfig::canonical
  std::string out = {};
  std::uint64_t run = 0;  ///< a number of this run
  std::uint64_t epoch_before = 0;  ///< the newest one when the run began
};

class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);

  /// Of this life.
  [[nodiscard]] std::uint64_t epoch() const { return opened_.journal.epoch(); }
  /// For the driver, once, before any shard is made: what is done, and what earlier runs left in `folders` (below OUT):
  /// temporaries are removed, shards whose files are gone or have another size count as not done. CRD-4.
  RunStart begin(const std::vector<std::string>& folders);
  /// CRD-1. How many shards the manifest has then.
  /// `epoch`: of the run's first life, which the names of all its temporaries have.
  std::uint64_t commit(const std::vector<CommitEntry>& group, std::uint64_t epoch);

 private:
  void write_delivered(const CommitEntry& entry, std::uint64_t epoch) const;
  void keep_made(const ShardNames& names, RunStart& start);

  CoordinatorOptions options_;
  Plan plan_;
  Journal::Opened opened_;
};

}  // namespace datagen
