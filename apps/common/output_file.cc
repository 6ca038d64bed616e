#include "apps/common/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "apps/common/descriptor.h"

namespace apps {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

troupe::Result<Descriptor> open_folder(const fs::path& folder) {
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) return system_error("cannot open the folder", folder).error_ptr();
  return opened;
}

troupe::Status write_and_sync(const fs::path& path, std::string_view rest, unsigned mode) {
  ::unlink(path.c_str());  // OF-2; also a dead process's of the same number
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (file.get() < 0) return system_error("cannot write", path);
  while (!rest.empty()) {
    const ssize_t written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("cannot write", path);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(file.get()) != 0) return system_error("cannot sync", path);
  return {};
}

}  // namespace

troupe::Status check_writable(const fs::path& path) {
  const fs::path folder = folder_of(path);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return troupe::InvalidArgumentError("cannot make the folder " + folder.string() + ": " + error.message());
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return system_error("cannot write in", folder);
  if (const auto opened = open_folder(folder); !opened.ok()) return opened.error_ptr();
  if (fs::is_directory(path, error)) return troupe::InvalidArgumentError(path.string() + " is a folder, not a file");
  return {};
}

troupe::Status write_file(const fs::path& path, const std::string& bytes, unsigned mode) {
  const fs::path folder = folder_of(path);
  std::error_code error;
  fs::create_directories(folder, error);
  const auto opened = open_folder(folder);
  if (!opened.ok()) return opened.error_ptr();
  fs::path aside = path;
  aside += ".tmp." + std::to_string(::getpid());
  troupe::Status status = write_and_sync(aside, bytes, mode);
  if (status.ok() && ::rename(aside.c_str(), path.c_str()) != 0) status = system_error("cannot rename to", path);
  if (!status.ok()) {
    fs::remove(aside, error);
    return status;
  }
  // Some file systems of networks have nothing to sync there, and say so.
  if (::fsync(opened->get()) != 0 && errno != EINVAL) return system_error("cannot sync the folder", folder);
  return {};
}

}  // namespace apps
