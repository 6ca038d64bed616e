#include "apps/datagen/run/dataset_folder.h"

#include <cerrno>
#include <fstream>
#include <iterator>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/output_file.h"
#include "apps/datagen/config/shard_names.h"
#include "apps/datagen/files/file_error.h"
#include "apps/datagen/files/folders.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::int64_t kFolderVersion = 1;

fs::path job_file(const fs::path& out) { return out / "manifest" / "job.json"; }

/// Something that is none of ours: not even of a run that failed before it began.
troupe::Status check_free(const fs::path& out) {
  std::error_code error;
  if (fs::exists(out, error) && !fs::is_directory(out, error))
    return troupe::InvalidArgumentError(fmt::format("{} is no folder: choose another --out", out.string()));
  for (fs::directory_iterator at(out, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name != "result.json" && name != "manifest")
      return troupe::InvalidArgumentError(fmt::format("{} holds {}, and no data set of datagen: choose another --out, "
                                                      "or empty it", out.string(), name));
    if (name == "manifest" && !fs::is_empty(at->path(), error))
      return troupe::InvalidArgumentError(fmt::format("{} has a manifest without its job.json: choose another --out",
                                                      out.string()));
  }
  return {};
}

}  // namespace

troupe::Result<DatasetFolder> read_dataset(const fs::path& out) {
  const fs::path path = job_file(out);
  std::ifstream in(path, std::ios::binary);
  if (!in) return troupe::NotFoundError(fmt::format("{} is no data set of datagen: there is no {}", out.string(),
                                                    path.string()));
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto damaged = [&](std::string_view why) {
    return troupe::SerializationError(fmt::format("{} is damaged ({}): the data set cannot go on; its shards are "
                                                  "whole", path.string(), why));
  };
  boost::system::error_code failed;
  const json::value value = json::parse(text, failed);
  if (failed || !value.is_object()) return damaged("no JSON");
  const json::object& object = value.as_object();
  const json::value* version = object.if_contains("datagen");
  if (version == nullptr || !version->is_int64()) return damaged("no version");
  if (version->get_int64() > kFolderVersion)
    return troupe::InvalidArgumentError(fmt::format("{} is of a newer version, {}; this program knows version {}: use "
                                                    "the program that made the data set, or a newer one",
                                                    path.string(), version->get_int64(), kFolderVersion));
  const json::value* config = object.if_contains("config");
  const json::value* hash = object.if_contains("hash");
  const json::value* name = object.if_contains("name");
  if (config == nullptr || hash == nullptr || !hash->is_string() || name == nullptr || !name->is_string())
    return damaged("something is missing");
  auto parsed = job_from(json::serialize(*config));
  if (!parsed.ok()) return parsed.error_ptr();
  if (hex(parsed->hash()) != std::string_view(hash->get_string())) return damaged("another hash");
  return DatasetFolder{*std::move(parsed), std::string(name->get_string())};
}

troupe::Result<ReadManifest> read_shards(const fs::path& out, const DatasetFolder& dataset) {
  const auto names = ShardNames::make(dataset.config);
  if (!names.ok()) return names.error_ptr();
  auto read =
      read_manifest(out / "manifest", {.job = dataset.config.hash(), .shards = dataset.config.plan.shards()});
  if (!read.ok()) return read.error_ptr();
  for (const ShardRecord& record : read->manifest.records())
    if (troupe::Status can_be = names->check(record.name, record.range); !can_be.ok()) return can_be.error_ptr();
  return read;
}

troupe::Result<DatasetFolder> open_dataset(const fs::path& out, const JobConfig& config, const std::string& name) {
  auto found = read_dataset(out);
  if (found.ok()) {
    if (const auto changed = differences(found->config, config); !changed.empty())
      return troupe::InvalidArgumentError(
          fmt::format("{} holds another data set: {}. Choose another --out, or the settings it was begun with",
                      out.string(), fmt::join(changed, "; ")));
    if (!name.empty() && name != found->name)
      return troupe::InvalidArgumentError(fmt::format("{} holds another data set: name: was {}, now {}", out.string(),
                                                      found->name, name));
    return found;
  }
  if (found.error().code() != troupe::ErrorCode::kNotFound) return found.error_ptr();
  if (troupe::Status free = check_free(out); !free.ok()) return free.error_ptr();
  if (troupe::Status made = make_folder(out / "manifest"); !made.ok()) return made.error_ptr();
  DatasetFolder begun{config, name.empty() ? fs::absolute(out).lexically_normal().filename().string() : name};
  if (begun.name.empty()) begun.name = fs::absolute(out).lexically_normal().parent_path().filename().string();
  const json::object object{{"datagen", kFolderVersion},
                            {"name", begun.name},
                            {"hash", hex(config.hash())},
                            {"config", json::parse(config.canonical())}};
  if (troupe::Status written = apps::write_file(job_file(out), json::serialize(object) + "\n"); !written.ok())
    return written.error_ptr();
  return begun;
}

}  // namespace datagen
