#include "core/owner/holds.h"

#include "core/runtime/frame_router.h"

namespace troupe::worker {

std::uint64_t HoldTable::hold(Outgoing outgoing) {
  if (outgoing.empty() || frames_.is_dead(outgoing.destination)) return 0;
  holds_.emplace(++last_hold_, std::move(outgoing));
  return last_hold_;
}

void HoldTable::acknowledged(ByteView payload) {
  FrameReader in(payload);
  while (in.left() >= sizeof(std::uint64_t)) holds_.erase(in.get<std::uint64_t>());
}

Arrival HoldTable::begin(ProcessId source, std::uint64_t token) {
  if (token == 0) return {source, 0};
  arrivals_.emplace(++last_arrival_, Arriving{source, token, 1});
  return {source, last_arrival_};
}

Arrival HoldTable::begin(ProcessId giver, std::function<void()> taken) {
  arrivals_.emplace(++last_arrival_, Arriving{giver, 0, 1, std::move(taken)});
  return {giver, last_arrival_};
}

void HoldTable::expect(std::uint64_t arrival) {
  if (auto found = arrivals_.find(arrival); found != arrivals_.end()) ++found->second.missing;
}

void HoldTable::confirmed(std::uint64_t arrival) {
  auto found = arrivals_.find(arrival);
  if (found == arrivals_.end() || --found->second.missing > 0) return;
  const Arriving done = std::move(found->second);
  arrivals_.erase(found);
  if (done.taken) return done.taken();
  frames_.control(done.source, Control::kHoldAck, 0, 0, std::as_bytes(std::span(&done.token, 1)));
}

void HoldTable::process_died(ProcessId process) {
  erase_if(holds_, [&](auto& one) { return one.second.destination == process; });
  erase_if(arrivals_, [&](auto& one) { return one.second.source == process; });
}

void HoldTable::node_died(std::uint32_t node) {
  erase_if(holds_, [&](auto& one) { return one.second.destination.node == node; });
  erase_if(arrivals_, [&](auto& one) { return one.second.source.node == node; });
}

void HoldTable::clear() {
  arrivals_.clear();
  auto held = std::exchange(holds_, {});  // what it held comes back here
}

}  // namespace troupe::worker
