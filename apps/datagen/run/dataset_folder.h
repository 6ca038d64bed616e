// The folder of a data set: who it belongs to.
//
//   OUT/manifest/job.json      the configuration, its hash, the name of the data set
//   OUT/manifest/NNNNNN.log    the journal (manifest/journal.h)
//   OUT/...                    shards, and what the format has beside them
//
// Any thread; several processes may try at the same time.
//
// DSF-1  A folder that holds anything else than a data set of this configuration is refused; the differences are named.
// DSF-2  Of those who begin a folder at once one does, and the others find it begun. Who was killed while beginning it
//        is in nobody's way.
#pragma once

#include <filesystem>
#include <string>

#include <troupe/result.h>

#include "apps/datagen/config/job_config.h"
#include "apps/datagen/config/shard_names.h"
#include "apps/datagen/manifest/journal.h"

namespace datagen {

struct DatasetFolder {
  JobConfig config;
  std::string name;  ///< of the data set
};

/// Begins it, or finds it begun (DSF-1: InvalidArgumentError). An empty name: the folder's own.
[[nodiscard]] troupe::Result<DatasetFolder> open_dataset(const std::filesystem::path& out, const JobConfig& config,
                                                         const std::string& name);
/// NotFoundError: there is none; RuntimeEnvError: it cannot be read; SerializationError: its job.json is damaged;
/// InvalidArgumentError: of a newer version.
[[nodiscard]] troupe::Result<DatasetFolder> read_dataset(const std::filesystem::path& out);

/// What its manifest says, where all of it can be (SHN-1): SerializationError else; and the errors of read_manifest.
[[nodiscard]] troupe::Result<ReadManifest> read_shards(const std::filesystem::path& out, const DatasetFolder& dataset,
                                                       const troupe::Result<ShardNames>& names);

}  // namespace datagen
