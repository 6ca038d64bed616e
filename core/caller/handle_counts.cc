#include "core/caller/handle_counts.h"

#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
constexpr auto kCountsDelay = std::chrono::milliseconds(1);
}

bool HandleCounts::hold(ActorId actor, HeldHandle& handle, std::uint64_t arrival) {
  if (handle.confirmed()) return false;
  if (handle.tell()) {
    auto [at, fresh] = changes_.emplace(actor, true);
    if (!fresh && !at->second) {
      changes_.erase(at);  // the two cancel out: the head has never heard of the drop
      handle.confirm();
    }
    flush_later();
  }
  if (handle.confirmed() || arrival == 0) return false;
  handle.delay(arrival);
  flush_soon();
  return true;
}

void HandleCounts::drop(ActorId actor) {
  auto [at, fresh] = changes_.emplace(actor, false);
  if (!fresh && at->second) changes_.erase(at);  // the two cancel out
  flush_later();
}

void HandleCounts::flush_later() {
  if (timer_ || changes_.empty()) return;
  timer_ = true;
  runtime_.add_timer(runtime_.deadline_after(kCountsDelay), [this] {
    timer_ = false;
    flush();
  });
}

/// A handle that just came is counted at once, together with what else came in its frame: its sender may be about to
/// die.
void HandleCounts::flush_soon() {
  if (std::exchange(soon_, true)) return;
  runtime_.defer([this] {
    CoreLock lock(runtime_);
    soon_ = false;
    flush();
  });
}

void HandleCounts::flush() {
  wire::HandleCounts message{runtime_.self(), {}, {}, std::exchange(begun_, {})};
  std::map<ActorId, bool> later;
  for (auto [actor, held] : std::exchange(changes_, {})) {
    if (held) message.held.push_back(actor);
    else if (names_asked_ == 0) message.dropped.push_back(actor);
    else later.emplace(actor, false);  // CAC-4
  }
  changes_ = std::move(later);
  if (message.held.empty() && message.dropped.empty() && message.begun.empty()) return;
  const std::vector<ActorId> held = message.held;
  runtime_.requests().send<wire::Empty>(kHead, wire::Method::kHandleCounts, message, [this, held](Result<wire::Empty>) {
    for (ActorId actor : held)
      if (HeldHandle* handle = find_(actor)) {
        handle->confirm();
        handle->release(holds_);
      }
  });
}

void HandleCounts::name_answered() {
  if (--names_asked_ == 0) flush();
}

}  // namespace troupe::worker
