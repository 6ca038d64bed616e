// The token file of a run, OUT/manifest/run.token: how tasks know that they write into the folder that the driver
// means, and how the driver knows that no task writes there any more.
//
//   a task holds it (shared lock) while it makes a shard ── the kernel lets go when its process dies
//   the driver, at the end, takes it alone, removes it, and may then remove temporaries
//
// One thread at a time a RunToken; tasks of any process.
//
// RTK-1  A task that enters holds the very file with the run's words in it: the same folder, the same run.
// RTK-2  After close() returned true no task is inside, and none enters again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <troupe/duration.h>
#include <troupe/result.h>

#include "apps/common/descriptor.h"

namespace datagen {

/// What a task finds. `inside` holds the token until it goes.
struct TokenEntry {
  enum class State { kInside, kNone, kOther, kEnding };
  State state = State::kNone;  ///< kNone: no token there; kOther: another run's; kEnding: the driver is closing it
  apps::Descriptor inside = {};
};

[[nodiscard]] TokenEntry enter_run(const std::filesystem::path& out, const std::string& token);

class RunToken {
 public:
  /// Words nobody else has, in the file, in place of an earlier run's, whose tasks it waits for, as long as `patience`.
  static troupe::Result<RunToken> create(const std::filesystem::path& out, troupe::Duration patience);
  RunToken(RunToken&&) noexcept = default;
  RunToken& operator=(RunToken&&) noexcept = default;

  [[nodiscard]] const std::string& words() const { return words_; }
  /// False: after `patience` there was still a task inside. Waits in the runtime: may throw CancelledError.
  bool close(troupe::Duration patience);

 private:
  RunToken(std::filesystem::path path, std::string words) : path_(std::move(path)), words_(std::move(words)) {}

  std::filesystem::path path_;
  std::string words_;
};

}  // namespace datagen
