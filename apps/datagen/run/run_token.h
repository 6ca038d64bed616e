// The token file of a run, OUT/manifest/NNNNNN.token: how tasks know that they write into the folder that the driver
// means, and how the driver knows that no task writes there any more. The number is the epoch that the run began with.
//
//   a task holds it (shared lock) while it makes a shard ── the kernel lets go when its process dies
//   the driver, at the end, removes it, and may remove temporaries when it has had the file alone
//
// One thread at a time a RunToken; tasks of any process.
//
// RTK-1  A task that enters holds the very file with the run's words in it: the same folder, the same run.
// RTK-2  After close() returned true no task is inside, and none enters again.
// RTK-3  Of runs that begin at once the one with the greatest epoch goes on, and none that is older: each writes its
//        own token first and looks at the others' then, so one of two always sees the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <troupe/duration.h>
#include <troupe/result.h>

#include "apps/common/descriptor.h"

namespace datagen {

/// What a task finds. `inside` holds the token until it goes.
struct TokenEntry {
  enum class State { kInside, kNone, kOther };
  State state = State::kNone;  ///< kNone: no token there; kOther: a newer run's is
  apps::Descriptor inside = {};
};

/// `token`: RunToken::words().
[[nodiscard]] TokenEntry enter_run(const std::filesystem::path& out, std::uint64_t epoch, const std::string& token);

class RunToken {
 public:
  /// Words nobody else has, in a file; the tokens of older runs are removed, and their tasks waited for, as long as
  /// `patience` all together. RuntimeEnvError: a newer run's is there (RTK-3), or the folder cannot be written.
  static troupe::Result<RunToken> create(const std::filesystem::path& out, std::uint64_t epoch,
                                         troupe::Duration patience);
  RunToken(RunToken&&) noexcept = default;
  RunToken& operator=(RunToken&&) noexcept = default;

  [[nodiscard]] const std::string& words() const { return words_; }
  /// False: after `patience` there was still a task inside. Waits in the runtime: may throw CancelledError, when no
  /// task enters any more.
  bool close(troupe::Duration patience);

 private:
  RunToken(std::filesystem::path path, std::string words) : path_(std::move(path)), words_(std::move(words)) {}

  std::filesystem::path path_;
  std::string words_;
};

}  // namespace datagen
