#include "apps/datagen/run/coordinator.h"

#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <troupe/context.h>

#include "apps/datagen/config/job_config.h"
#include "apps/datagen/files/file_error.h"
#include "apps/datagen/files/folders.h"
#include "apps/datagen/files/nondeterministic_error.h"
#include "apps/datagen/files/shard_file.h"
#include "apps/datagen/files/temporaries.h"
#include "apps/datagen/manifest/made_notes.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;

Journal::Opened open(const CoordinatorOptions& options, const Plan& plan) {
  return Journal::take_over(fs::path(options.out) / "manifest",
                            {.owner = {.job = sha256(options.config), .shards = plan.shards()},
                             .run = options.run,
                             .successor_of_itself = troupe::runtime_context().attempt > 0,
                             .epoch_before = options.epoch_before})
      .value();
}

bool has_size(const fs::path& path, std::uint64_t bytes) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) == bytes;
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_(options), plan_(job_from(options.config).value().plan), opened_(open(options, plan_)) {}

RunStart Coordinator::begin(const std::vector<std::string>& folders) {
  const fs::path out(options_.out);
  RunStart start{.done = std::vector<std::uint64_t>(plan_.shards() / 64 + 1),
                 .notes = opened_.before.notes};
  const ShardNames names = ShardNames::make(job_from(options_.config).value()).value();
  keep_made(names, start);
  for (const ShardRecord& record : opened_.before.manifest.records()) {
    names.check(record.name, record.range).value();  // before anything is done to its file
    const auto shard = plan_.shard_of(record.range);
    if (!has_size(out / record.name, record.bytes)) {
      start.damaged.push_back(record);
      continue;
    }
    start.done[*shard / 64] |= std::uint64_t{1} << (*shard % 64);
    ++start.shards;
    start.rows += record.rows;
    start.bytes += record.bytes;
  }
  if (!start.damaged.empty())
    start.notes.push_back(fmt::format("{} shards of the manifest have no file, or one of another size: they are made "
                                      "again", start.damaged.size()));
  std::set<fs::path> paths;
  for (const std::string& folder : folders) {
    paths.insert(out / folder);
    make_folder(out / folder).value();
  }
  sync_folder(out).value();  // a run before may have died between making a folder and syncing this one
  start.temporaries = sweep_temporaries(paths, epoch() - 1).value();
  paths.insert(out);
  sweep_asides(paths).value();
  return start;
}

/// Shards of runs that ended before they committed them. Their files are synced, their names perhaps not.
void Coordinator::keep_made(const ShardNames& names, RunStart& start) {
  const fs::path out(options_.out), manifest = out / "manifest";
  const std::uint64_t last = epoch() - 1;
  std::vector<ShardRecord> kept;
  std::set<fs::path> folders;
  for (ShardRecord& record :
       read_made(manifest, last, {.job = sha256(options_.config), .shards = plan_.shards()})) {
    if (opened_.before.manifest.find(record.range.begin) != nullptr ||
        !names.check(record.name, record.range).ok() || !has_size(out / record.name, record.bytes))
      continue;
    const auto there = digest_of_file(out / record.name);
    if (!there.ok() || there->sha256 != record.sha256) continue;  // it is made again, and compared then
    folders.insert((out / record.name).parent_path());
    kept.push_back(std::move(record));
  }
  for (const fs::path& folder : folders) sync_folder(folder).value();
  opened_.journal.commit(kept).value();
  for (ShardRecord& record : kept) opened_.before.manifest.add(std::move(record)).value();
  remove_made(manifest, last);
  if (!kept.empty())
    start.notes.push_back(fmt::format("{} shards that an earlier run made and did not commit are kept", kept.size()));
}

void Coordinator::write_delivered(const CommitEntry& entry, std::uint64_t epoch) const {
  const auto bytes = std::as_bytes(entry.bytes.span());
  if (sha256(bytes) != entry.record.sha256)  // before they get a name: it would be in the way of the right ones
    throw troupe::SerializationError(fmt::format("shard {} arrived with other bytes than it was sent with",
                                                 entry.record.name));
  ShardFile file = ShardFile::create({options_.out, entry.record.name, epoch, entry.record.attempt}).value();
  file.write(bytes);
  const ShardRecord* before = opened_.before.manifest.find(entry.record.range.begin);
  file.publish(before ? std::optional(before->sha256) : std::nullopt).value();
}

std::uint64_t Coordinator::commit(const std::vector<CommitEntry>& group, std::uint64_t epoch) {
  std::vector<ShardRecord> records;
  std::set<fs::path> folders;
  for (const CommitEntry& entry : group) {
    if (entry.travelled) write_delivered(entry, epoch);
    if (!entry.folder_synced) folders.insert((fs::path(options_.out) / entry.record.name).parent_path());
  }
  for (const fs::path& folder : folders) sync_folder(folder).value();
  Manifest& manifest = opened_.before.manifest;
  for (const CommitEntry& entry : group) {
    if (!plan_.shard_of(entry.record.range))
      throw troupe::InvalidArgumentError(fmt::format("shard {} is not of the plan", entry.record.name));
    if (const ShardRecord* before = manifest.find(entry.record.range.begin)) {
      if (!same_shard(*before, entry.record))
        throw NondeterministicError(entry.record.name, before->sha256, entry.record.sha256);
      continue;
    }
    records.push_back(entry.record);
  }
  opened_.journal.commit(records).value();
  for (ShardRecord& record : records) manifest.add(std::move(record)).value();
  return manifest.size();
}

}  // namespace datagen
