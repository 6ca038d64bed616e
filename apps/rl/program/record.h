// `rl record`: plays a policy without exploration and keeps what it looks like.
#pragma once

#include "apps/rl/program/command_line.h"

namespace rl {

/// The exit code.
[[nodiscard]] int record(const RecordCommand& command);

}  // namespace rl
