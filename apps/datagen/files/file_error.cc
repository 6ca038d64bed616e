#include "apps/datagen/files/file_error.h"

#include <cerrno>
#include <cstring>

namespace datagen {

troupe::ErrorPtr file_error(int code, const std::string& what, const std::filesystem::path& path) {
  const std::string message = what + " " + path.string() + ": " + std::strerror(code);
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) return troupe::make_error<troupe::OutOfDiskError>(message);
  return troupe::make_error<troupe::RuntimeEnvError>(message);
}

}  // namespace datagen
