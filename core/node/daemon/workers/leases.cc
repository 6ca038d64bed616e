#include "core/node/daemon/workers/leases.h"

namespace troupe::node {

void Leases::apply() {
  for (std::vector<sched::LeaseEffect> effects = queue_.take_effects(); !effects.empty();
       effects = queue_.take_effects())
    for (const sched::LeaseEffect& effect : effects) std::visit([this](const auto& one) { perform(one); }, effect);
  set_timer();
  actions_.applied();
}

void Leases::perform(const sched::Granted& effect) {
  messenger_.notice(effect.requester, wire::Method::kLeaseGranted, effect.lease);
}

void Leases::perform(const sched::Refused& effect) {
  messenger_.notice(effect.requester, wire::Method::kLeaseRefused, effect.refusal);
}

void Leases::perform(const sched::Forward& effect) {
  messenger_.notice(daemon_of(effect.node), wire::Method::kForwardLease, effect.wanted);
}

void Leases::perform(const sched::CountAtOrigin& effect) {
  messenger_.notice(daemon_of(effect.node), wire::Method::kLeaseCounted, effect.counted);
}

void Leases::set_timer() {
  const std::optional<TimePoint> next = queue_.next_deadline();
  if (!next || (timer_ && timer_->first <= *next)) return;
  if (timer_) loop_.cancel(*timer_);
  timer_ = loop_.at(*next, [this] {
    timer_.reset();
    queue_.tick(loop_.now());
    apply();
  });
}

}  // namespace troupe::node
