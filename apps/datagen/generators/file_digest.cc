#include "apps/datagen/generators/file_digest.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "apps/common/input_file.h"

namespace datagen {

troupe::Result<Digest> file_sha256(const std::filesystem::path& path) {
  const auto file = apps::open_input(path);
  if (!file.ok()) return file.error_ptr();
  Sha256 hash;
  std::array<std::byte, 65'536> bytes;
  while (true) {
    const ssize_t count = ::read(file->get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return troupe::RuntimeEnvError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
    if (count == 0) return hash.finish();
    hash.update(std::span(bytes).first(static_cast<std::size_t>(count)));
  }
}

}  // namespace datagen
