#include "collective/base/backend_name.h"

namespace troupe::collective {

const char* backend_name(Backend backend) {
  switch (backend) {
    case Backend::kAuto: return "auto";
    case Backend::kShm: return "shm";
    case Backend::kTcp: return "tcp";
    case Backend::kHier: return "hier";
    case Backend::kNccl: return "nccl";
  }
  return "unknown";
}

}  // namespace troupe::collective
