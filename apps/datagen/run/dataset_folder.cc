#include "apps/datagen/run/dataset_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string_view>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/descriptor.h"
#include "apps/common/input_file.h"
#include "apps/common/precise_json.h"
#include "apps/datagen/files/file_error.h"
#include "apps/datagen/files/folders.h"
#include "apps/datagen/files/free_name.h"
#include "apps/datagen/files/shard_file.h"

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

/// job.json on its way, named so that no other process, on whatever machine, has the same file.
constexpr std::string_view kAside = ".job.json.";
bool is_aside(std::string_view name) { return name.starts_with(kAside); }

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
  }
  for (fs::directory_iterator at(out / "manifest", error), end; !error && at != end; at.increment(error))
    if (!is_aside(at->path().filename().string()))
      return troupe::InvalidArgumentError(fmt::format("{} has a manifest without its job.json: choose another --out",
                                                      out.string()));
  return {};
}

/// On disk, but for its name.
troupe::Status write_whole(const fs::path& path, std::string_view rest) {
  const apps::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.get() < 0) return file_error(errno, "cannot write", path);
  while (!rest.empty()) {
    const ssize_t count = ::write(file.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error(errno, "cannot write", path);
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fsync(file.get()) != 0) return file_error(errno, "cannot sync", path);
  return {};
}

/// Whoever's they are: nobody needs one any more when there is a job.json.
void remove_asides(const fs::path& out) {
  std::error_code error;
  for (fs::directory_iterator at(out / "manifest", error), end; !error && at != end; at.increment(error))
    if (is_aside(at->path().filename().string())) ::unlink(at->path().c_str());
}

/// DSF-1.
troupe::Result<DatasetFolder> found_begun(const fs::path& out, DatasetFolder found, const JobConfig& config,
                                          const std::string& name) {
  if (const auto changed = differences(found.config, config); !changed.empty())
    return troupe::InvalidArgumentError(
        fmt::format("{} holds another data set: {}. Choose another --out, or the settings it was begun with",
                    out.string(), fmt::join(changed, "; ")));
  if (!name.empty() && name != found.name)
    return troupe::InvalidArgumentError(fmt::format("{} holds another data set: name: was {}, now {}", out.string(),
                                                    found.name, name));
  return found;
}

/// False: another one was quicker, or has removed our aside as one that nobody needs any more.
troupe::Result<bool> publish(const fs::path& out, const DatasetFolder& begun) {
  const json::object object{{"datagen", kFolderVersion},
                            {"name", begun.name},
                            {"hash", hex(begun.config.hash())},
                            {"config", apps::parse_json(begun.config.canonical())}};
  const fs::path folder = out / "manifest";
  std::random_device random;
  const fs::path aside = folder / fmt::format("{}{:08x}{:08x}.tmp", kAside, random(), random());
  std::error_code error;
  if (troupe::Status written = write_whole(aside, json::serialize(object) + "\n"); !written.ok()) {
    ::unlink(aside.c_str());
    return written.error_ptr();
  }
  const int code = take_free_name(aside, job_file(out));
  if (code != 0) ::unlink(aside.c_str());
  if (code == EEXIST || (code == ENOENT && fs::exists(job_file(out), error))) return false;
  if (code != 0) return file_error(code, "cannot make", job_file(out));
  if (troupe::Status synced = sync_folder(folder); !synced.ok()) return synced.error_ptr();
  return true;
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
  DatasetFolder found{*std::move(parsed), std::string(name->get_string())};
  if (!check_name(found.name).ok()) return damaged("a name that none is begun with");
  return found;
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
  DatasetFolder begun{config, name.empty() ? fs::absolute(out).lexically_normal().filename().string() : name};
  if (begun.name.empty()) begun.name = fs::absolute(out).lexically_normal().parent_path().filename().string();
  for (bool again = false;; again = true) {
    auto found = read_dataset(out);
    if (found.ok()) {
      remove_asides(out);
      return found_begun(out, *std::move(found), config, name);
    }
    if (again || found.error().code() != troupe::ErrorCode::kNotFound) return found.error_ptr();
    std::error_code error;
    const troupe::Status free = check_free(out);
    if (!free.ok() && !fs::exists(job_file(out), error)) return free.error_ptr();  // else it was begun meanwhile
    if (!free.ok()) continue;
    if (troupe::Status fits = check_name(begun.name); !fits.ok()) return fits.error_ptr();
    if (troupe::Status made = make_folder(out / "manifest"); !made.ok()) return made.error_ptr();
    const auto published = publish(out, begun);
    if (!published.ok()) return published.error_ptr();
    if (*published) remove_asides(out);
    if (*published) return begun;
  }
}

}  // namespace datagen
