// The names of the backends, as logs and errors have them.
//
// Pure; any thread.
#pragma once
#include <troupe/collective_types.h>

namespace troupe::collective {

/// "auto", "shm", "tcp", "hier", "nccl".
const char* backend_name(Backend backend);

}  // namespace troupe::collective
