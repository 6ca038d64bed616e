#include "apps/datagen/manifest/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "apps/common/input_file.h"
#include "apps/datagen/files/file_error.h"
#include "apps/datagen/files/folders.h"
#include "apps/datagen/files/shard_file.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnd = ".log";

fs::path file_of(const fs::path& folder, std::uint64_t epoch) { return folder / fmt::format("{:06}{}", epoch, kEnd); }

/// Of "000007.log" 7; 0: another name.
std::uint64_t epoch_of(std::string_view name) {
  if (!name.ends_with(kEnd)) return 0;
  name.remove_suffix(kEnd.size());
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), out);
  return name.size() >= 6 && error == std::errc() && end == name.data() + name.size() && out <= kEpochMax ? out : 0;
}

/// In order. A missing folder has none.
troupe::Result<std::vector<std::uint64_t>> epochs_in(const fs::path& folder) {
  std::vector<std::uint64_t> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const std::uint64_t epoch = epoch_of(at->path().filename().string()); epoch != 0) out.push_back(epoch);
  if (error && error != std::errc::no_such_file_or_directory)
    return file_error(error.value(), "cannot look into the folder", folder);
  std::ranges::sort(out);
  return out;
}

/// From `offset` to its end, and no more than `most` bytes. NotFoundError: it is gone.
troupe::Result<std::vector<std::byte>> read_from(const fs::path& path, std::uint64_t offset,
                                                 std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  const auto file = apps::open_input(path);
  if (!file.ok()) return file.error_ptr();
  struct stat status {};
  if (::fstat(file->get(), &status) != 0) return file_error(errno, "cannot read", path);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::vector<std::byte> out(std::min(most, size > offset ? size - offset : 0));
  std::size_t have = 0;
  while (have < out.size()) {
    const ssize_t count =
        ::pread(file->get(), out.data() + have, out.size() - have, static_cast<off_t>(offset + have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error(errno, "cannot read", path);
    if (count == 0) break;  // cut back meanwhile
    have += static_cast<std::size_t>(count);
  }
  out.resize(have);
  return out;
}

/// 0 or errno.
int write_all(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return 0;
}

/// A journal as it is read, before anybody asks whose it is.
struct Latest {
  std::uint64_t epoch = 0;
  JournalContents contents;
};

/// What the journal of such a plan can be: each shard is in it once. A file says it is larger than it is for nothing.
std::uint64_t bytes_of_journal(std::uint64_t shards) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return shards < kMost / kRecordMax - 1 ? kJournalHead + shards * kRecordMax : kMost;
}

/// The greatest epoch's. Its file may be removed by a successor while we look: then that one's is read.
troupe::Result<Latest> read_latest(const fs::path& folder, std::uint64_t shards) {
  std::uint64_t gone = 0;
  while (true) {
    const auto epochs = epochs_in(folder);
    if (!epochs.ok()) return epochs.error_ptr();
    if (epochs->empty()) return Latest{};
    const std::uint64_t epoch = epochs->back();
    const auto bytes = read_from(file_of(folder, epoch), 0, bytes_of_journal(shards));
    if (!bytes.ok()) {
      if (bytes.error().code() != troupe::ErrorCode::kNotFound || epoch <= gone) return bytes.error_ptr();
      gone = epoch;
      continue;
    }
    auto contents = parse_journal(*bytes);
    if (!contents.ok())
      return troupe::InvalidArgumentError(file_of(folder, epoch).string() + ": " + contents.error().message());
    if (contents->head && contents->head->epoch != epoch) {
      contents->damage = JournalDamage{0, bytes->size(), "the head of another epoch"};
      contents->head.reset();
      contents->records.clear();
      contents->good_bytes = 0;
    }
    return Latest{epoch, *std::move(contents)};
  }
}

std::string note_of(const fs::path& file, const JournalDamage& damage) {
  return fmt::format("{}: {} bytes from byte {} on are lost ({}); the shards before are kept, those in them are made "
                     "again", file.string(), damage.bytes, damage.offset, damage.what);
}

troupe::Result<ReadManifest> checked(const fs::path& folder, Latest latest, const JournalOwner& owner) {
  ReadManifest out{.epoch = latest.epoch, .run = 0, .manifest = {}, .notes = {}};
  if (latest.epoch == 0) return out;
  const fs::path file = file_of(folder, latest.epoch);
  if (latest.contents.damage) out.notes.push_back(note_of(file, *latest.contents.damage));
  if (!latest.contents.head) return out;
  const JournalHead& head = *latest.contents.head;
  if (head.job != owner.job || head.shards != owner.shards)
    return troupe::InvalidArgumentError(
        fmt::format("{} is of another job (configuration {}, {} shards; here {}, {}): choose another folder",
                    file.string(), hex(head.job).substr(0, 12), head.shards, hex(owner.job).substr(0, 12),
                    owner.shards));
  out.run = head.run;
  for (ShardRecord& record : latest.contents.records)
    if (const auto added = out.manifest.add(std::move(record)); !added.ok()) return added.error_ptr();
  return out;
}

/// Records of epochs before `latest` whose files are still there: a successor that has not come to its end yet, or died
/// on its way, may have left some of them out (DJR-2).
troupe::Status add_older(const fs::path& folder, std::uint64_t latest, const JournalOwner& owner, Manifest& manifest) {
  const auto epochs = epochs_in(folder);
  if (!epochs.ok()) return epochs.error_ptr();
  for (const std::uint64_t epoch : *epochs) {
    if (epoch >= latest) break;
    const auto bytes = read_from(file_of(folder, epoch), 0, bytes_of_journal(owner.shards));
    if (!bytes.ok()) continue;  // removed meanwhile: the later one has what was in it
    auto contents = parse_journal(*bytes);
    if (!contents.ok() || !contents->head || contents->head->job != owner.job) continue;
    for (ShardRecord& record : contents->records)
      if (const auto added = manifest.add(std::move(record)); !added.ok()) return added.error_ptr();
  }
  return {};
}

/// Asides of successors that died: `.<name of the journal>.<run>.<process>.tmp`. One that lives and lost the race may
/// lose its aside here; it tries anew.
void remove_asides(const fs::path& folder, std::uint64_t epoch) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const std::size_t dot = name.find(kEnd);
    if (!name.starts_with('.') || !name.ends_with(".tmp") || dot == std::string::npos) continue;
    const std::uint64_t of = epoch_of(std::string_view(name).substr(1, dot + kEnd.size() - 1));
    if (of != 0 && of <= epoch) ::unlink(at->path().c_str());
  }
}

/// The new journal with its first records, on disk and published; none: another one was quicker.
troupe::Result<std::optional<apps::Descriptor>> publish(const fs::path& folder, const JournalHead& head,
                                                        std::span<const std::byte> bytes) {
  const fs::path path = file_of(folder, head.epoch);
  const fs::path aside =
      folder / fmt::format(".{}.{:016x}.{}.tmp", path.filename().string(), head.run, ::getpid());
  ::unlink(aside.c_str());  // a dead process's of the same number
  apps::Descriptor file(::open(aside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.get() < 0) return file_error(errno, "cannot write", aside);
  int code = write_all(file.get(), bytes, 0);
  if (code == 0 && ::fsync(file.get()) != 0) code = errno;
  if (code != 0) {
    ::unlink(aside.c_str());
    return file_error(code, "cannot write", aside);
  }
  code = ::link(aside.c_str(), path.c_str()) == 0 ? 0 : errno;
  ::unlink(aside.c_str());
  if (code == EEXIST || code == ENOENT) return std::optional<apps::Descriptor>();
  if (code != 0) return file_error(code, "cannot make", path);
  if (troupe::Status synced = sync_folder(folder); !synced.ok()) return synced.error_ptr();
  return std::optional(std::move(file));
}

}  // namespace

troupe::Result<ReadManifest> read_manifest(const fs::path& folder, const JournalOwner& owner) {
  auto latest = read_latest(folder, owner.shards);
  if (!latest.ok()) return latest.error_ptr();
  return checked(folder, *std::move(latest), owner);
}

troupe::Result<NewestEpoch> newest_epoch(const fs::path& folder) {
  std::uint64_t gone = 0;
  while (true) {
    const auto epochs = epochs_in(folder);
    if (!epochs.ok()) return epochs.error_ptr();
    if (epochs->empty()) return NewestEpoch{};
    const std::uint64_t epoch = epochs->back();
    const auto head = read_from(file_of(folder, epoch), 0, kJournalHead);
    if (!head.ok() && head.error().code() == troupe::ErrorCode::kNotFound && epoch > gone) {
      gone = epoch;  // a successor has removed it
      continue;
    }
    if (!head.ok()) return head.error_ptr();
    const auto contents = parse_journal(*head);
    return NewestEpoch{epoch, contents.ok() && contents->head ? contents->head->run : 0};
  }
}

troupe::Result<Journal::Opened> Journal::take_over(const fs::path& folder, const TakeOver& take) {
  if (troupe::Status made = make_folder(folder); !made.ok()) return made.error_ptr();
  while (true) {
    auto latest = read_latest(folder, take.owner.shards);
    if (!latest.ok()) return latest.error_ptr();
    const std::uint64_t good_bytes = latest->contents.good_bytes;
    auto before = checked(folder, *std::move(latest), take.owner);
    if (!before.ok()) return before.error_ptr();
    if (take.successor_of_itself && before->run != take.run && before->epoch != take.epoch_before)
      return troupe::RuntimeEnvError(fmt::format("another coordinator has taken over {}: this run is over there",
                                                 folder.parent_path().string()));
    if (before->epoch >= kEpochMax)
      return troupe::InvalidArgumentError(fmt::format("{}: no run has come to an epoch like that, and there is none "
                                                      "after it: remove the file",
                                                      file_of(folder, before->epoch).string()));
    if (troupe::Status status = add_older(folder, before->epoch, take.owner, before->manifest); !status.ok())
      return status.error_ptr();
    const JournalHead head{before->epoch + 1, take.run, take.owner.job, take.owner.shards};
    std::vector<std::byte> bytes;
    append_head(bytes, head);
    for (const ShardRecord& record : before->manifest.records()) append_record(bytes, record, head.epoch);
    auto file = publish(folder, head, bytes);
    if (!file.ok()) return file.error_ptr();
    if (!*file) continue;  // the winner's epoch is the one to follow
    Journal journal(folder, head, *std::move(*file), bytes.size());
    if (troupe::Status status = journal.take_late_records(good_bytes, *before); !status.ok()) return status.error_ptr();
    journal.remove_older();
    return Opened{std::move(journal), *std::move(before)};
  }
}

/// DJR-2: what the one before committed after it was read, and before this epoch was there to see.
troupe::Status Journal::take_late_records(std::uint64_t good_bytes, ReadManifest& before) {
  if (before.run == 0) return {};
  const auto more = read_from(file_of(folder_, before.epoch), good_bytes, bytes_of_journal(head_.shards));
  if (!more.ok()) return {};  // a later successor has removed it: this journal is over, as its first commit will find
  JournalContents late;
  parse_records(*more, before.epoch, good_bytes, late);
  if (!late.damage) before.notes.clear();  // it was being written
  std::vector<ShardRecord> added;
  for (ShardRecord& record : late.records) {
    const auto is_new = before.manifest.add(record);
    if (!is_new.ok()) return is_new.error_ptr();
    if (*is_new) added.push_back(std::move(record));
  }
  return commit(added);
}

void Journal::remove_older() const {
  remove_asides(folder_, head_.epoch);
  const auto epochs = epochs_in(folder_);
  if (!epochs.ok()) return;  // they are in nobody's way
  for (const std::uint64_t epoch : *epochs)
    if (epoch < head_.epoch) ::unlink(file_of(folder_, epoch).c_str());
}

troupe::Status Journal::check_newest() const {
  const auto epochs = epochs_in(folder_);
  if (!epochs.ok()) return epochs.error_ptr();
  if (!epochs->empty() && epochs->back() == head_.epoch) return {};
  return troupe::RuntimeEnvError(
      fmt::format("another coordinator has taken over {}: epoch {} is there, this one's is {}; nothing was committed",
                  folder_.parent_path().string(), epochs->empty() ? 0 : epochs->back(), head_.epoch));
}

troupe::Status Journal::commit(std::span<const ShardRecord> records) {
  if (records.empty()) return {};
  if (troupe::Status newest = check_newest(); !newest.ok()) return newest;
  std::vector<std::byte> bytes;
  for (const ShardRecord& record : records) append_record(bytes, record, head_.epoch);
  if (troupe::Status appended = append(bytes); !appended.ok()) return appended;
  return check_newest();
}

troupe::Status Journal::append(std::span<const std::byte> bytes) {
  int code = write_all(file_.get(), bytes, size_);
  if (code == 0 && ::fdatasync(file_.get()) != 0) code = errno;
  if (code != 0) {
    if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) code = code == 0 ? errno : code;
    return file_error(code, "cannot write", file_of(folder_, head_.epoch));
  }
  size_ += bytes.size();
  return {};
}

}  // namespace datagen
