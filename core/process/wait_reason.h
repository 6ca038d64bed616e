// Why an object is not ready yet: what the error of a get that ran into its timeout says.
#pragma once
#include <troupe/duration.h>
#include <troupe/error.h>

#include "core/owner/objects.h"

namespace troupe::worker {

class Core;

/// A GetTimeoutError that names the task or method which makes the object, and what that waits for, as far as this
/// process knows. Thread rule: lock held.
ErrorRecord not_ready_error(Core& core, const ObjectEntry& entry, Duration timeout);

}  // namespace troupe::worker
