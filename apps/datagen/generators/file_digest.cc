#include "apps/datagen/generators/file_digest.h"

#include <array>
#include <cstdio>
#include <memory>
#include <span>

#include <fmt/format.h>

namespace datagen {

troupe::Result<Digest> file_sha256(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored))
      return troupe::NotFoundError(fmt::format("there is no file {}", path.string()));
    return troupe::RuntimeEnvError(fmt::format("{} cannot be opened", path.string()));
  }
  Sha256 hash;
  std::array<std::byte, 65'536> bytes;
  for (;;) {
    const std::size_t count = std::fread(bytes.data(), 1, bytes.size(), file.get());
    hash.update(std::span(bytes).first(count));
    if (count == bytes.size()) continue;
    if (std::ferror(file.get()) != 0)
      return troupe::RuntimeEnvError(fmt::format("{} cannot be read", path.string()));
    return hash.finish();
  }
}

}  // namespace datagen
