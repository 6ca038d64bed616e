#include "apps/datagen/read/read_demonstrations.h"

#include <vector>

#include <fmt/format.h>

#include "apps/datagen/config/shard_names.h"
#include "apps/datagen/files/shard_file.h"
#include "apps/datagen/formats/minari/minari.h"
#include "apps/datagen/formats/parquet/parquet.h"
#include "apps/datagen/read/minari_episodes.h"
#include "apps/datagen/read/parquet_episodes.h"
#include "apps/datagen/run/dataset_folder.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;

/// RDM-1. In the order of their ranges.
std::vector<ShardRecord> committed_shards(const fs::path& folder, const DatasetFolder& dataset) {
  const std::uint64_t shards = dataset.config.plan.shards();
  const FormatKind format = dataset.config.format.name == "parquet" ? parquet_format() : minari_format();
  const auto read = read_shards(folder, dataset, ShardNames::make(dataset.config, format)).value();
  if (read.manifest.size() != shards)
    troupe::InvalidArgumentError(fmt::format("{} has {} of its {} shards: 'datagen resume {}' makes the others",
                                             folder.string(), read.manifest.size(), shards, folder.string()))
        .raise();
  std::vector<ShardRecord> records = read.manifest.in_order();
  for (const ShardRecord& record : records) {
    const FileDigest found = digest_of_file(folder / record.name).value();
    if (found.bytes != record.bytes || found.sha256 != record.sha256)
      troupe::SerializationError(fmt::format("{} has other bytes than were committed: 'datagen verify {}' says which "
                                             "shards are damaged",
                                             (folder / record.name).string(), folder.string()))
          .raise();
  }
  return records;
}

rl::Demonstrations own_dataset(const fs::path& folder, const DatasetFolder& dataset) {
  const std::string& format = dataset.config.format.name;
  if (format != "parquet" && format != "minari")
    troupe::InvalidArgumentError(fmt::format("{} is a data set of the format '{}': episodes are read from 'parquet' "
                                             "and 'minari'",
                                             folder.string(), format))
        .raise();
  std::vector<fs::path> files;
  std::vector<EpisodesFile> parts;
  for (const ShardRecord& record : committed_shards(folder, dataset)) {
    files.push_back(folder / record.name);
    parts.push_back({.file = folder / record.name, .begin = record.range.begin, .end = record.range.end});
  }
  return format == "parquet" ? parquet_episodes(files) : minari_episodes(folder / "data", parts);
}

rl::Demonstrations any_dataset(const fs::path& folder) {
  if (const auto own = read_dataset(folder); own.ok()) return own_dataset(folder, *own);
  else if (own.error().code() != troupe::ErrorCode::kNotFound) own.error().raise();
  for (const fs::path& place : {folder / "data", folder})
    if (fs::exists(place / "metadata.json")) return minari_episodes(place);
  troupe::NotFoundError(fmt::format("{} is no data set: it has neither a manifest of datagen nor the metadata.json of "
                                    "minari",
                                    folder.string()))
      .raise();
}

}  // namespace

troupe::Result<rl::Demonstrations> read_demonstrations(const fs::path& folder) {
  try {
    return any_dataset(folder);
  } catch (const troupe::Error& error) {
    return troupe::Error::make(error.record());
  } catch (const std::exception& error) {
    return troupe::SerializationError(fmt::format("{}: {}", folder.string(), error.what()));
  }
}

}  // namespace datagen
