#include "apps/datagen/manifest/made_notes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "apps/common/descriptor.h"
#include "apps/common/input_file.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMiddle = ".made.";
constexpr std::uint64_t kMost = 1 << 30;  // MDN-2

/// Of "000003.made.0123456789abcdef" 3; 0: another name.
std::uint64_t epoch_of_notes(std::string_view name) {
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), out);
  if (error != std::errc()) return 0;
  return name.substr(static_cast<std::size_t>(end - name.data())).starts_with(kMiddle) ? out : 0;
}

std::vector<fs::path> files_until(const fs::path& folder, std::uint64_t epoch) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const std::uint64_t of = epoch_of_notes(at->path().filename().string()); of != 0 && of <= epoch)
      out.push_back(at->path());
  return out;
}

/// No other process of whatever machine has it. Processes are forked before they make a shard.
const std::string& name_of_process() {
  static const std::string the_one = [] {
    std::random_device random;
    return fmt::format("{:08x}{:08x}", random(), random());
  }();
  return the_one;
}

}  // namespace

void note_made(const fs::path& folder, std::uint64_t epoch, const JournalOwner& owner, const ShardRecord& record) {
  static std::mutex mutex;  // two tasks of a process may end at once
  const std::scoped_lock lock(mutex);
  const fs::path path = folder / fmt::format("{:06}{}{}", epoch, kMiddle, name_of_process());
  const apps::Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return;
  std::vector<std::byte> bytes;
  if (status.st_size == 0)
    append_head(bytes, {.epoch = epoch, .run = 0, .job = owner.job, .shards = owner.shards});
  append_record(bytes, record, epoch);
  if (::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) return;
  if (::ftruncate(file.get(), status.st_size) != 0) ::unlink(path.c_str());  // behind half a note none is read
}

std::vector<ShardRecord> read_made(const fs::path& folder, std::uint64_t epoch, const JournalOwner& owner) {
  std::map<std::uint64_t, ShardRecord> found;
  for (const fs::path& path : files_until(folder, epoch)) {
    const auto text = apps::read_input(path, kMost);
    if (!text.ok()) continue;
    auto contents = parse_journal(std::as_bytes(std::span(*text)));
    if (!contents.ok() || !contents->head) continue;
    if (contents->head->job != owner.job || contents->head->shards != owner.shards) continue;
    for (ShardRecord& record : contents->records)
      if (found.size() < owner.shards || found.contains(record.range.begin))
        found.insert_or_assign(record.range.begin, std::move(record));
  }
  std::vector<ShardRecord> out;
  for (auto& [begin, record] : found) out.push_back(std::move(record));
  return out;
}

void remove_made(const fs::path& folder, std::uint64_t epoch) {
  for (const fs::path& path : files_until(folder, epoch)) ::unlink(path.c_str());
}

}  // namespace datagen
