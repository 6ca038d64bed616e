// Copies of buffers that other nodes made.
#include <string>

#include "objectstore/server.h"

namespace troupe::store {

Result<StoreServer::CopyTicket> StoreServer::begin_copy(BufferId remote, std::uint64_t size, TimePoint deadline) {
  if (remote.node == layout_.node || remote.is_nil())
    return InvalidArgumentError("not a buffer of another node: " + to_string(remote));
  if (const CopyTable::Copy* copy = copies_.find(remote)) {
    bool present = copy->state == CopyTable::State::kPresent;
    if (present) copies_.touch(copy->local.slot);
    return CopyTicket{present ? CopyTicket::State::kPresent : CopyTicket::State::kShared, copy->local, {}};
  }
  for (const Waiting& w : waiting_large_) {
    if (w.kind == Waiting::Kind::kCopy && w.remote == remote) return CopyTicket{CopyTicket::State::kWaiting, {}, {}};
  }
  if (size > layout_.capacity) {
    return ObjectStoreFullError("a copy of " + std::to_string(size) + " bytes can never fit into the " +
                                std::to_string(layout_.capacity) + " bytes of node " + std::to_string(layout_.node) +
                                "'s object store");
  }
  std::size_t before = effects_.size();
  ask(waiting_large_, {.kind = Waiting::Kind::kCopy, .size = size, .remote = remote, .deadline = deadline});
  // Answered at once: the answer is the result, not an effect. Evictions stay effects.
  if (effects_.size() > before) {
    if (auto* granted = std::get_if<CopyGranted>(&effects_.back()); granted && granted->remote == remote) {
      CopyTicket ticket{CopyTicket::State::kStarted, granted->local, granted->bytes};
      effects_.pop_back();
      return ticket;
    }
    if (auto* failed = std::get_if<CopyFailed>(&effects_.back()); failed && failed->remote == remote) {
      ErrorPtr error = failed->error;
      effects_.pop_back();
      return error;
    }
  }
  return CopyTicket{CopyTicket::State::kWaiting, {}, {}};
}

StoreServer::Outcome StoreServer::grant_copy(const Waiting& request) {
  auto placed = place(SlotKind::kCopy, {}, request.size);
  if (!placed.ok()) {
    fail(request, placed.error_ptr());
    return Outcome::kDone;
  }
  if (!*placed) return Outcome::kNoRoom;
  copies_.begin(request.remote, (*placed)->id);
  effects_.push_back(CopyGranted{request.remote, (*placed)->id, memory({(*placed)->range.offset, request.size})});
  return Outcome::kDone;
}

Result<BufferId> StoreServer::finish_copy(BufferId remote) {
  const CopyTable::Copy* copy = copies_.find(remote);
  if (!copy || !copies_.finish(remote)) return NotFoundError("no copy of " + to_string(remote) + " is being made");
  BufferId local = copy->local;
  set_word(local.slot, {local.generation, SlotState::kSealed});
  return local;
}

void StoreServer::abort_copy(BufferId remote) {
  std::erase_if(waiting_large_, [&](const Waiting& w) { return w.kind == Waiting::Kind::kCopy && w.remote == remote; });
  const CopyTable::Copy* copy = copies_.find(remote);
  if (copy && copy->state == CopyTable::State::kFilling) {
    BufferId local = copy->local;
    release_slot(local.slot, local.generation);
  }
  serve_queues();
}

std::optional<BufferId> StoreServer::find_copy(BufferId remote) {
  const CopyTable::Copy* copy = copies_.find(remote);
  if (!copy || copy->state != CopyTable::State::kPresent) return std::nullopt;
  copies_.touch(copy->local.slot);
  return copy->local;
}

/// A copy that is still being filled is the filler's to abort.
void StoreServer::origin_gone(BufferId remote) {
  const CopyTable::Copy* copy = copies_.find(remote);
  if (!copy || copy->state != CopyTable::State::kPresent) return;
  std::uint32_t slot = copy->local.slot;
  copies_.mark_origin_gone(remote);
  try_free(slot);
  serve_queues();
}

bool StoreServer::evict_one_copy() {
  std::vector<std::uint32_t> oldest_first;
  copies_.each_least_recent([&](const CopyTable::Copy& copy) { oldest_first.push_back(copy.local.slot); });
  for (std::uint32_t slot : oldest_first) {
    if (unlink_if_unpinned(slot, word(slot))) return true;
  }
  return false;
}

}  // namespace troupe::store
