#include "apps/common/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

namespace apps {
namespace {

namespace fs = std::filesystem;

// Where the last whole line ends; `size` bytes are there.
troupe::Result<off_t> end_of_last_line(int fd, off_t size, const fs::path& path) {
  std::array<char, 4096> block;
  while (size > 0) {
    const off_t from = std::max<off_t>(0, size - static_cast<off_t>(block.size()));
    const ssize_t got = ::pread(fd, block.data(), static_cast<std::size_t>(size - from), from);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("cannot read", path).error_ptr();
    const std::string_view text(block.data(), static_cast<std::size_t>(got));
    if (const std::size_t at = text.rfind('\n'); at != std::string_view::npos) return from + static_cast<off_t>(at) + 1;
    size = from;
  }
  return off_t{0};
}

troupe::Status cut_after_last_line(int fd, const fs::path& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return system_error("cannot read", path);
  if (!S_ISREG(status.st_mode)) return {};  // a pipe or a device has no past
  const troupe::Result<off_t> end = end_of_last_line(fd, status.st_size, path);
  if (!end.ok()) return end.error_ptr();
  if (*end < status.st_size && ::ftruncate(fd, *end) != 0) return system_error("cannot cut", path);
  return {};
}

}  // namespace

troupe::Result<AppendFile> AppendFile::open(const fs::path& path, Existing existing) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  // Reading is for kAfterLastLine alone: a file that may only be written can be extended.
  const int access = existing == Existing::kAfterLastLine ? O_RDWR : O_WRONLY;
  const int flags = access | O_CREAT | O_APPEND | O_CLOEXEC | (existing == Existing::kRefuse ? O_EXCL : 0);
  Descriptor file(::open(path.c_str(), flags, 0644));
  if (file.get() < 0) return system_error("cannot write", path).error_ptr();
  if (existing == Existing::kAfterLastLine) {
    const troupe::Status cut = cut_after_last_line(file.get(), path);
    if (!cut.ok()) return cut.error_ptr();
  }
  return AppendFile(std::move(file), path);
}

troupe::Status AppendFile::append(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(file_.get(), bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const troupe::Status status = system_error("cannot write", path_);
      struct stat now {};
      if (done > 0 && ::fstat(file_.get(), &now) == 0 && S_ISREG(now.st_mode) &&
          ::ftruncate(file_.get(), now.st_size - static_cast<off_t>(done)) != 0)
        return system_error("cannot cut", path_);
      return status;
    }
    done += static_cast<std::size_t>(written);
  }
  return {};
}

troupe::Status AppendFile::sync() {
  // EINVAL: a pipe or a device, which has nothing to sync.
  if (::fsync(file_.get()) != 0 && errno != EINVAL) return system_error("cannot sync", path_);
  return {};
}

}  // namespace apps
