#include "apps/datagen/files/shard_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "apps/common/input_file.h"
#include "apps/datagen/files/file_error.h"
#include "apps/datagen/files/free_name.h"
#include "apps/datagen/files/nondeterministic_error.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBuffer = 256 << 10;  // a write of this size costs less than a hundredth of hashing it
constexpr std::size_t kDirect = 16 << 10;   // pieces that are not copied: to the cache they come from

}  // namespace

fs::path ShardPlace::aside() const {
  const fs::path whole = file();
  return whole.parent_path() /
         ("." + whole.filename().string() + "." + std::to_string(epoch) + "." + std::to_string(attempt) + ".tmp");
}

troupe::Result<ShardFile> ShardFile::create(ShardPlace place) {
  const fs::path aside = place.aside();
  const auto open = [&] { return ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); };
  int fd = open();
  if (fd < 0 && errno == EEXIST && ::unlink(aside.c_str()) == 0) fd = open();  // SFL-6
  if (fd < 0 && errno == ENOENT && fs::is_directory(place.folder)) {
    std::error_code error;
    fs::create_directories(aside.parent_path(), error);
    if (error) return file_error(error.value(), "cannot make the folder", aside.parent_path());
    if (troupe::Status synced = sync_folder(place.folder); !synced.ok()) return synced.error_ptr();
    fd = open();
  }
  if (fd < 0) return file_error(errno, "cannot write", aside);
  return ShardFile(std::move(place), apps::Descriptor(fd));
}

ShardFile::~ShardFile() {
  if (file_.get() >= 0) ::unlink(place_.aside().c_str());
}

void ShardFile::write(std::span<const std::byte> bytes) {
  written_ += bytes.size();
  if (bytes.size() >= kDirect) return put(bytes);
  if (buffer_.size() + bytes.size() > kBuffer) put({});
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

/// What was buffered, then these.
void ShardFile::put(std::span<const std::byte> bytes) {
  std::array<std::span<const std::byte>, 2> left{buffer_, bytes};
  for (const auto& part : left) hash_.update(part);
  while (!left[0].empty() || !left[1].empty()) {
    std::array<iovec, 2> parts;
    for (std::size_t i = 0; i < parts.size(); ++i)
      parts[i] = {.iov_base = const_cast<std::byte*>(left[i].data()), .iov_len = left[i].size()};
    const ssize_t count = ::writev(file_.get(), parts.data(), static_cast<int>(parts.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) file_error(errno, "cannot write", place_.aside())->raise();
    std::size_t done = static_cast<std::size_t>(count);
    for (auto& part : left) {
      const std::size_t of_part = std::min(done, part.size());
      part = part.subspan(of_part);
      done -= of_part;
    }
  }
  buffer_.clear();
}

troupe::Result<PublishedShard> ShardFile::publish(const std::optional<Digest>& committed) {
  try {
    put({});
  } catch (const troupe::Error& error) { return troupe::Error::make(error.record()); }
  PublishedShard out{.sha256 = hash_.finish(), .bytes = written_};
  const fs::path aside = place_.aside();
  if (::fsync(file_.get()) != 0) return file_error(errno, "cannot sync", aside);
  if (committed && *committed != out.sha256) return NondeterministicError(place_.name, *committed, out.sha256);
  const int code = take_free_name(aside, place_.file());
  if (code == EEXIST) return beside_existing(out, committed);
  if (code != 0) return file_error(code, "cannot rename to", place_.file());
  file_.reset();  // published: nothing to remove
  return out;
}

troupe::Result<PublishedShard> ShardFile::beside_existing(const PublishedShard& ours,
                                                          const std::optional<Digest>& committed) {
  const auto existing = digest_of_file(place_.file());
  if (!existing.ok()) return existing.error_ptr();
  if (existing->sha256 == ours.sha256)
    return PublishedShard{.sha256 = ours.sha256, .bytes = ours.bytes, .was_there = true};
  if (!committed) return NondeterministicError(place_.name, existing->sha256, ours.sha256);
  if (::rename(place_.aside().c_str(), place_.file().c_str()) != 0)
    return file_error(errno, "cannot rename to", place_.file());
  file_.reset();
  return ours;
}

troupe::Status sync_folder(const fs::path& folder) {
  const apps::Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) return file_error(errno, "cannot open the folder", folder);
  // Some file systems of networks have nothing to sync there, and say so.
  if (::fsync(opened.get()) != 0 && errno != EINVAL) return file_error(errno, "cannot sync the folder", folder);
  return {};
}

troupe::Result<FileDigest> digest_of_file(const fs::path& path) {
  const auto file = apps::open_input(path);
  if (!file.ok()) return file.error_ptr();
  FileDigest out;
  Sha256 hash;
  std::vector<std::byte> buffer(kBuffer);
  while (true) {
    const ssize_t count = ::read(file->get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error(errno, "cannot read", path);
    if (count == 0) break;
    hash.update(std::span(buffer).first(static_cast<std::size_t>(count)));
    out.bytes += static_cast<std::uint64_t>(count);
  }
  out.sha256 = hash.finish();
  return out;
}

}  // namespace datagen
