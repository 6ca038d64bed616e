#include "core/net/endpoint/inbox.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/base/check.h"

namespace troupe::net {

// ---- outbox

bool Outbox::send(ProcessId to, const FrameHeader& header, std::span<const ByteView> pieces) {
  std::size_t size = 0;
  for (const ByteView& piece : pieces) size += piece.size();
  const std::uint32_t slot = peers_.find(to);
  Peer* peer = peers_.get(slot);
  if (!peer || size > kPayloadMax) return false;
  FrameHeader sealed = header;
  sealed.version = kFrameVersion;
  sealed.reserved = 0;
  sealed.payload_size = static_cast<std::uint32_t>(size);

  std::lock_guard lock(peer->mutex);
  if (!peer->usable() || peer->id != to) return false;
  if (last_slot_.load(std::memory_order_relaxed) != slot) last_slot_.store(slot, std::memory_order_relaxed);
  if (!peer->outbox.empty()) flush_locked(slot, *peer);  // NIN-3
  PieceCursor cursor(pieces);
  std::size_t sent = 0;
  bool started = false;
  if (peer->outbox.empty()) {
    const std::uint64_t before = peer->out.published();
    const auto outcome = peer->out.write(sealed, cursor, sent, started);
    publish_and_ring(*peer, before);
    if (outcome == RingWriter::Outcome::kDone) return true;
    if (outcome == RingWriter::Outcome::kCorrupt) break_locked(slot, *peer);
  }
  if (!peer->usable()) return false;
  enqueue(*peer, sealed, cursor, sent, started);
  // The reader may have made room, and told so, after write() failed and before there was anything to flush.
  flush_locked(slot, *peer);
  return true;
}

void Outbox::enqueue(Peer& peer, const FrameHeader& header, PieceCursor& rest, std::size_t sent, bool started) {
  QueuedMessage message{header, nullptr, header.payload_size - sent, 0, sent, started};
  if (message.size > 0) {
    message.payload.reset(new std::byte[message.size]);
    rest.copy(message.payload.get(), message.size);
  }
  peer.backlog.fetch_add(message.size + sizeof(FrameHeader), std::memory_order_seq_cst);  // NIN-4
  peer.outbox.push_back(std::move(message));
  queued.fetch_add(1, std::memory_order_relaxed);
}

void Outbox::flush(std::uint32_t slot, Peer& peer) {
  std::lock_guard lock(peer.mutex);
  flush_locked(slot, peer);
}

void Outbox::flush_locked(std::uint32_t slot, Peer& peer) {
  if (peer.outbox.empty() || !peer.usable()) return;
  // The reader clears this when half of the ring is free; trying before is work for nothing.
  if (peer.out.control().space_wanted.load(std::memory_order_seq_cst) != 0) return;
  const std::uint64_t before = peer.out.published();
  auto outcome = RingWriter::Outcome::kDone;
  std::size_t freed = 0;
  while (outcome == RingWriter::Outcome::kDone && !peer.outbox.empty()) {
    QueuedMessage& message = peer.outbox.front();
    const ByteView rest{message.payload.get() + message.done, message.size - message.done};
    PieceCursor cursor({&rest, 1});
    std::size_t sent = message.sent_before + message.done;
    outcome = peer.out.write(message.header, cursor, sent, message.started);
    message.done = sent - message.sent_before;
    if (outcome == RingWriter::Outcome::kDone) {
      freed += message.size + sizeof(FrameHeader);
      peer.outbox.pop_front();
    }
  }
  peer.backlog.fetch_sub(freed, std::memory_order_relaxed);
  publish_and_ring(peer, before);
  if (outcome == RingWriter::Outcome::kCorrupt) break_locked(slot, peer);
}

void Outbox::publish_and_ring(Peer& peer, std::uint64_t published_before) {
  peer.out.publish();
  if (peer.out.published() != published_before) ring(peer);
}

void Outbox::ring(Peer& peer) {
  if (peer.remote_slot == kNoSlot) {
    const std::uint32_t told = peer.out.control().consumer_slot.load(std::memory_order_seq_cst);
    if (told == 0 || told > kReadyBits) return;  // not attached yet: it looks at the ring when it attaches
    peer.remote_slot = told - 1;
  }
  switch (peer.doorbell.ring(peer.remote_slot)) {
    case PeerDoorbell::Rang::kNo: break;
    case PeerDoorbell::Rang::kFutex: futex_rings.fetch_add(1, std::memory_order_relaxed); break;
    case PeerDoorbell::Rang::kEvent: event_rings.fetch_add(1, std::memory_order_relaxed); break;
  }
}

void Outbox::tell_space(Peer& peer) {
  std::lock_guard lock(peer.mutex);
  ring(peer);
}

void Outbox::break_locked(std::uint32_t slot, Peer& peer) {
  peer.defect = "the read position is impossible";
  peer.state.store(Peer::State::kBroken, std::memory_order_release);
  doorbell_.ring_self(slot);  // the holder of the role tells the handler
}

// ---- inbox

bool Inbox::hot_ready() const noexcept {
  if (hot_ == kNoSlot) return false;
  const Peer& peer = *peers_.get(hot_);
  switch (peer.state.load(std::memory_order_acquire)) {
    case Peer::State::kOpen: break;
    case Peer::State::kBroken: return !peer.told_broken;
    default: return false;
  }
  if (!peer.paused && !peer.in.empty()) return true;
  return peer.backlog.load(std::memory_order_seq_cst) != 0 &&
         peer.out.control().space_wanted.load(std::memory_order_seq_cst) == 0;
}

bool Inbox::ready() const noexcept { return !pending_.empty() || hot_ready() || doorbell_.listen_any(hot_); }

int Inbox::poll(Handler& handler, int budget) {
  doorbell_.listen_collect(pending_, hot_);
  const bool hot_now = hot_ready();
  if (hot_now) pending_.add(hot_);
  if (pending_.empty()) return 0;
  polls.add();
  int done = 0;
  while (done < budget && !pending_.empty()) {
    const std::uint32_t slot = pending_.next(cursor_);
    pending_.remove(slot);
    cursor_ = (slot + 1) % kReadyBits;
    const int here = visit(slot, std::min(budget - done, kVisitMax), handler);
    done += here;
    if (here > 0 && slot != hot_) note_source(slot);
  }
  if (hot_now) hot_misses_ = 0;
  received.add(static_cast<std::uint64_t>(done));
  return done;
}

// NIN-2: the first source becomes hot at once, another one when the hot ring was quiet for some polls.
void Inbox::note_source(std::uint32_t slot) {
  last_slot_ = slot;
  if (hot_ != kNoSlot && ++hot_misses_ < kHotPatience) return;
  Peer* peer = peers_.get(slot);
  if (!peer->usable()) return;
  if (hot_ != kNoSlot) {
    doorbell_.listen_clear(hot_);
    pending_.add(hot_);  // looked at once more, after its bit was cleared
  }
  hot_ = slot;
  hot_misses_ = 0;
  doorbell_.listen_set(slot);
}

int Inbox::visit(std::uint32_t slot, int limit, Handler& handler) {
  Peer* peer = peers_.get(slot);
  if (!peer || peer->visiting) return 0;  // DB-3
  const auto state = peer->state.load(std::memory_order_acquire);
  if (state == Peer::State::kBroken) report_broken(*peer, handler);
  if (state != Peer::State::kOpen) return 0;
  last_slot_ = slot;
  if (peer->backlog.load(std::memory_order_seq_cst) != 0) outbox_.flush(slot, *peer);  // NIN-4
  if (peer->paused) return 0;  // NIN-5
  return read(slot, *peer, limit, handler);
}

int Inbox::read(std::uint32_t slot, Peer& peer, int limit, Handler& handler) {
  int done = 0;
  auto outcome = RingReader::Outcome::kMessage;
  peer.visiting = true;
  while (done < limit) {
    RingReader::Message message;
    outcome = peer.in.next(message);
    if (outcome != RingReader::Outcome::kMessage) break;
    handler.on_message(peer.id, message.header, message.payload);
    ++done;
    if (peer.paused || peer.state.load(std::memory_order_relaxed) == Peer::State::kClosing) break;
  }
  peer.visiting = false;
  if (peer.state.load(std::memory_order_relaxed) == Peer::State::kClosing) {
    tear_down(slot, peer);
    return done;
  }
  peer.in.release();
  if (peer.in.take_space_request()) outbox_.tell_space(peer);
  if (outcome == RingReader::Outcome::kCorrupt) {
    {
      std::lock_guard lock(peer.mutex);
      peer.defect = peer.in.defect();
      peer.state.store(Peer::State::kBroken, std::memory_order_release);
    }
    report_broken(peer, handler);
  } else if (outcome == RingReader::Outcome::kMessage && !peer.paused && !peer.in.empty()) {
    pending_.add(slot);  // stopped by the limit
  }
  return done;
}

void Inbox::report_broken(Peer& peer, Handler& handler) {
  if (peer.told_broken) return;
  peer.told_broken = true;
  std::string why = "the shared memory of process " + to_string(peer.id) + " is damaged: ";
  {
    std::lock_guard lock(peer.mutex);
    why += peer.defect;
  }
  handler.on_broken(peer.id, std::make_shared<const Error>(why));
}

std::size_t Inbox::drain(std::uint32_t slot, Handler& handler) {
  TROUPE_CHECK(!peers_.get(slot)->visiting, "drain_and_close of the peer whose message is being handled");
  std::size_t done = 0;
  peers_.get(slot)->paused = false;
  for (Peer& peer = *peers_.get(slot); peer.usable();) {
    const int now = read(slot, peer, kVisitMax, handler);
    if (now == 0) break;
    done += static_cast<std::size_t>(now);
  }
  received.add(done);
  return done;
}

void Inbox::resume(std::uint32_t slot) {
  if (!std::exchange(peers_.get(slot)->paused, false)) return;
  pending_.add(slot);
  doorbell_.ring_self(slot);  // whoever listens has passed it by
}

void Inbox::close(std::uint32_t slot) {
  Peer& peer = *peers_.get(slot);
  {
    std::lock_guard lock(peer.mutex);
    peer.state.store(Peer::State::kClosing, std::memory_order_release);
  }
  if (!peer.visiting) tear_down(slot, peer);
}

void Inbox::tear_down(std::uint32_t slot, Peer& peer) {
  if (hot_ == slot) {
    hot_ = kNoSlot;
    doorbell_.listen_clear(slot);
  }
  if (last_slot_ == slot) last_slot_ = kNoSlot;
  pending_.remove(slot);
  ProcessId id;
  {
    std::lock_guard lock(peer.mutex);
    id = peer.id;
    peer.outbox.clear();
    peer.backlog.store(0, std::memory_order_relaxed);
    peer.out = RingWriter();
    peer.in = RingReader();
    peer.doorbell = PeerDoorbell();
    peer.remote_slot = kNoSlot;
    peer.pair = PairMapping();
    peer.defect = nullptr;
    peer.told_broken = false;
    peer.paused = false;
    peer.state.store(Peer::State::kFree, std::memory_order_release);
  }
  peers_.erase(id);  // the slot may be used again from here on
}

bool Inbox::shares_cpu() const noexcept {
  std::uint32_t slot = last_slot_;
  if (slot == kNoSlot) slot = outbox_.last_slot();
  const Peer* peer = peers_.get(slot);
  return peer && peer->usable() && peer->doorbell.cpu() == current_cpu();
}

}  // namespace troupe::net
