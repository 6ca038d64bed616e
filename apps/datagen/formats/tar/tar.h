// Tar archives of POSIX ustar, of plain files in one folder.
//
//   header   512 bytes: name, mode 0644, uid 0, gid 0, size, mtime 0, checksum, type '0', "ustar\0" "00"
//   data     the bytes, then zeros up to a multiple of 512
//   ...      and 1024 zeros at the end
//
// One thread at a time.
//
// TAR-1  The bytes are a function of names and data alone.
// TAR-2  Names have 1 to 100 bytes, files fewer than 8 GiB: else InvalidArgumentError (thrown by add).
// TAR-3  read_tar takes what the writer makes and what tar and Python's tarfile make of plain files. Anything else,
//        cut or damaged, is a SerializationError with the place; it never looks behind the bytes it was given.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/result.h>

#include "apps/datagen/files/byte_sink.h"

namespace datagen {

class TarWriter {
 public:
  /// `sink` outlives it.
  explicit TarWriter(ByteSink& sink) : sink_(sink) {}

  /// A file whose data is `head`, then `rest`.
  void add(std::string_view name, std::string_view head, std::span<const std::byte> rest = {});
  void finish();

 private:
  ByteSink& sink_;
};

struct TarMember {
  std::string name;
  std::span<const std::byte> data;  ///< of the archive's bytes
};

[[nodiscard]] troupe::Result<std::vector<TarMember>> read_tar(std::span<const std::byte> archive);

}  // namespace datagen
