// What this process counts and measures (troupe::metrics), told to the head once a second while it changes, and at the
// end of its job.
#pragma once

namespace troupe::worker {

class Core;

/// Tells it now, if anything has changed since the last time. Thread rule: lock held.
void report_metrics(Core& core);

}  // namespace troupe::worker
