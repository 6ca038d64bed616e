#include "apps/common/descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace apps {

void Descriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

troupe::Status system_error(const std::string& what, const std::filesystem::path& path) {
  const int code = errno;
  const std::string message = what + " " + path.string() + ": " + std::strerror(code);
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) return troupe::OutOfDiskError(message);
  return troupe::InvalidArgumentError(message);
}

}  // namespace apps
