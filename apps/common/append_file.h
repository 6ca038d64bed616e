// A file that grows while a program runs: the lines of a log, the records of an event file.
//
// One writer a file; one thread at a time. Nothing is kept in memory: what append() took is with the kernel and
// outlives this process; after sync() it outlives the machine.
//
// APF-1  append() writes all of its bytes or none: when a write fails half way, the file is cut back to where it was,
//        and a later append() goes on there.
// APF-2  No room (disk, quota, limit of the file's size) is an OutOfDiskError; the file stays usable.
// APF-3  kAfterLastLine cuts what follows the last end of line: what a crash left of a line. Whole lines are never cut.
#pragma once

#include <filesystem>
#include <string_view>

#include <troupe/result.h>

#include "apps/common/descriptor.h"

namespace apps {

/// What open() does with a file that is there.
enum class Existing {
  kRefuse,         ///< InvalidArgumentError
  kExtend,         ///< goes on at its end
  kAfterLastLine,  ///< goes on after its last whole line (APF-3)
};

class AppendFile {
 public:
  /// Makes the file's folder and the file where they are missing.
  static troupe::Result<AppendFile> open(const std::filesystem::path& path, Existing existing);

  troupe::Status append(std::string_view bytes);
  troupe::Status sync();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  AppendFile(Descriptor file, std::filesystem::path path) : file_(std::move(file)), path_(std::move(path)) {}

  Descriptor file_;
  std::filesystem::path path_;
};

}  // namespace apps
