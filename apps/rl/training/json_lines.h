// A log of JSON lines: one object a line, as training goes on, for scripts and `tail -f`.
//
// One writer a file; one thread at a time.
//
// RJL-1  A line is whole or absent: it is written at once and ends with an end of line; what a crash left of a last
//        line is cut off when the file is opened again. Whole lines are never changed.
// RJL-2  JSON has no NaN and no infinities: such numbers become null, at any depth.
// RJL-3  A full disk is an OutOfDiskError: that line is absent, later ones are written where there is room again.
//
// A resumed run adds to the file of the run before, which may have gone further than the checkpoint: of two lines that
// name the same step the later one counts.
#pragma once

#include <filesystem>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/common/append_file.h"

namespace rl {

class JsonLines {
 public:
  /// Makes the file and its folder where they are missing.
  static troupe::Result<JsonLines> open(const std::filesystem::path& path);

  troupe::Status add(const boost::json::object& line);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit JsonLines(apps::AppendFile file) : file_(std::move(file)) {}

  apps::AppendFile file_;
};

}  // namespace rl
