#include "apps/datagen/run/dataset_folder.h"

#include <algorithm>
#include <cerrno>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/input_file.h"
#include "apps/common/output_file.h"
#include "apps/common/precise_json.h"
#include "apps/datagen/files/folders.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::int64_t kFolderVersion = 1;
constexpr std::size_t kNameMax = 1000;
constexpr std::uint64_t kJobFileMax = 16 << 20;

/// It is shown, and kept as JSON: UTF-8, and nothing that moves a terminal's cursor.
troupe::Status check_name(const std::string& name) {
  boost::system::error_code failed;
  (void)json::parse(json::serialize(json::value(name)), failed);
  const bool shown = std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (!failed && shown && name.size() <= kNameMax) return {};
  return troupe::InvalidArgumentError(fmt::format(
      "the name of a data set is UTF-8 text without control characters, of at most {} bytes; {} is not: give --name",
      kNameMax, failed ? "it" : json::serialize(json::value(name.substr(0, kNameMax)))));
}

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
  const auto text = apps::read_input(path, kJobFileMax);
  if (!text.ok() && text.error().code() == troupe::ErrorCode::kNotFound)
    return troupe::NotFoundError(fmt::format("{} is no data set of datagen: there is no {}", out.string(),
                                             path.string()));
  if (!text.ok()) return text.error_ptr();
  const auto damaged = [&](std::string_view why) {
    return troupe::SerializationError(fmt::format("{} is damaged ({}): the data set cannot go on; its shards are "
                                                  "whole", path.string(), why));
  };
  boost::system::error_code failed;
  const json::value value = apps::parse_json(*text, failed);
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

troupe::Result<ReadManifest> read_shards(const fs::path& out, const DatasetFolder& dataset,
                                         const troupe::Result<ShardNames>& names) {
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
  DatasetFolder begun{config, name.empty() ? fs::absolute(out).lexically_normal().filename().string() : name};
  if (begun.name.empty()) begun.name = fs::absolute(out).lexically_normal().parent_path().filename().string();
  if (troupe::Status fits = check_name(begun.name); !fits.ok()) return fits.error_ptr();
  if (troupe::Status made = make_folder(out / "manifest"); !made.ok()) return made.error_ptr();
  const json::object object{{"datagen", kFolderVersion},
                            {"name", begun.name},
                            {"hash", hex(config.hash())},
                            {"config", apps::parse_json(config.canonical())}};
  if (troupe::Status written = apps::write_file(job_file(out), json::serialize(object) + "\n"); !written.ok())
    return written.error_ptr();
  return begun;
}

}  // namespace datagen
