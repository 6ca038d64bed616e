#include "apps/common/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace apps {
namespace {

namespace fs = std::filesystem;

troupe::ErrorPtr cannot_read(const fs::path& path, int code) {
  return troupe::make_error<troupe::RuntimeEnvError>("cannot read " + path.string() + ": " + std::strerror(code));
}

}  // namespace

troupe::Result<Descriptor> open_input(const fs::path& path) {
  // Without waiting: a pipe that nobody writes would hold us at its opening already.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0 && (errno == ENOENT || errno == ENOTDIR))
    return troupe::NotFoundError("there is no file " + path.string());
  if (file.get() < 0 && errno != ENXIO) return cannot_read(path, errno);
  struct stat status {};
  if (file.get() >= 0 && ::fstat(file.get(), &status) != 0) return cannot_read(path, errno);
  if (file.get() < 0 || !S_ISREG(status.st_mode))
    return troupe::InvalidArgumentError(path.string() + " is no plain file, and is not read");
  return file;
}

troupe::Result<std::string> read_input(const fs::path& path, std::uint64_t bytes_max) {
  const auto file = open_input(path);
  if (!file.ok()) return file.error_ptr();
  struct stat status {};
  if (::fstat(file->get(), &status) != 0) return cannot_read(path, errno);
  if (static_cast<std::uint64_t>(status.st_size) > bytes_max)
    return troupe::InvalidArgumentError(
        fmt::format("{} has {} bytes; at most {} are read", path.string(), status.st_size, bytes_max));
  std::string out(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t have = 0;
  while (have < out.size()) {
    const ssize_t count = ::read(file->get(), out.data() + have, out.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(path, errno);
    if (count == 0) break;  // cut meanwhile
    have += static_cast<std::size_t>(count);
  }
  out.resize(have);
  return out;
}

}  // namespace apps
