// Notes of what tasks have made: OUT/manifest/NNNNNN.made.<process>, beside the journal and of its form. The number is
// the epoch that the run began with. A task notes its shard when the file has its name; a commit comes later, and not
// at all when the driver dies. The run after that keeps what was made: it looks at the files, not at the notes alone.
//
//   a task publishes its shard ──▶ note_made() ── the driver dies ──▶ read_made(), files hashed, committed, removed
//
// Notes are never synced and nobody needs one: a lost one costs that its shard is made again.
//
// Any thread; a process writes into a file of its own.
//
// MDN-1  A note is read whole or not at all; damage and files of other jobs or newer versions are no notes.
// MDN-2  Reading is bounded, whatever lies there: by one file at a time, of a GiB, and one note for each shard of the
//        plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <troupe/result.h>

#include "apps/datagen/manifest/journal.h"

namespace datagen {

/// `folder` is OUT/manifest, `epoch` the one with which the run began.
void note_made(const std::filesystem::path& folder, std::uint64_t epoch, const JournalOwner& owner,
               const ShardRecord& record);

/// Of runs with epochs up to `epoch`, by first samples; of notes of the same one the last that is read.
[[nodiscard]] std::vector<ShardRecord> read_made(const std::filesystem::path& folder, std::uint64_t epoch,
                                                 const JournalOwner& owner);

/// Removes the notes of runs with epochs up to `epoch`, as far as that goes.
void remove_made(const std::filesystem::path& folder, std::uint64_t epoch);

}  // namespace datagen
