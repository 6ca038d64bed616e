#include "core/node/daemon/workers/forwarded_leases.h"

namespace troupe::node {

void ForwardedLeases::wanted(const wire::LeaseWanted& wanted) {
  if (of_the_dead(wanted)) return;  // it went another way than the news of the death, and was overtaken
  parts_.jobs.with(wanted.lease_class.job, wanted.requester, [this, wanted](Job*) {
    if (of_the_dead(wanted) || parts_.jobs.is_over(wanted.lease_class.job)) return;
    parts_.leases.queue().wanted(wanted, parts_.loop.now());
    parts_.leases.apply();
  });
}

/// FWL-1
bool ForwardedLeases::of_the_dead(const wire::LeaseWanted& wanted) const {
  return is_dead_(wanted.requester.node) || parts_.table.death(wanted.requester) != nullptr;
}

}  // namespace troupe::node
