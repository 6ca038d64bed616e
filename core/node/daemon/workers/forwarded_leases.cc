#include "core/node/daemon/workers/forwarded_leases.h"

namespace troupe::node {

void ForwardedLeases::wanted(const wire::LeaseWanted& wanted) {
  if (of_the_dead(wanted)) return;  // it went another way than the news of the death, and was overtaken
  parts_.jobs.with(wanted.lease_class.job, wanted.requester, [this, wanted](Job*) {
    if (of_the_dead(wanted)) return;
    if (parts_.jobs.is_over(wanted.lease_class.job)) return give_back(wanted);
    parts_.leases.queue().wanted(wanted, parts_.loop.now());
    parts_.leases.apply();
  });
}

/// The other daemon, which believes that the job goes on, may be right: this one may have ended it without the head.
/// It would send the request again at once.
void ForwardedLeases::give_back(const wire::LeaseWanted& wanted) {
  wire::LeaseCounted back{wanted.requester, wanted.request_id, parts_.table.node(), 0, wanted.wanted};
  parts_.loop.after(kGiveBackPause, [this, back] {
    parts_.messenger.notice(daemon_of(back.requester.node), wire::Method::kLeaseCounted, back);
  });
}

/// FWL-1
bool ForwardedLeases::of_the_dead(const wire::LeaseWanted& wanted) const {
  return is_dead_(wanted.requester.node) || parts_.table.death(wanted.requester) != nullptr;
}

}  // namespace troupe::node
