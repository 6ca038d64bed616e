// The two directions of an endpoint's traffic over its peers: Outbox writes into rings or queues, Inbox reads rings and
// gives messages to the handler.
//
// Thread rule: Outbox: any thread (it takes the peer's mutex). Inbox: the holder of the consumer role.
//
// Invariants
//   NIN-1  A peer's messages are delivered in order. Between peers: at most kVisitMax messages of one before the next
//          that has any.
//   NIN-2  One ring, the *hot* one (whose peer sent last, mostly), is looked at directly in every poll; its ready bit
//          stays set, so that two processes that call back and forth move no bits at all. Before another becomes hot
//          the old one's bit is cleared and its ring looked at once more.
//   NIN-3  A queued message is written before any later one; what waits is flushed when the reader says that there is
//          room (space_wanted cleared), as seen by ready() and poll().
//   NIN-4  No queued message is missed: the sender adds to `backlog`, then reads space_wanted; the holder of the role
//          sees space_wanted cleared (or the bit that the reader set after it), then reads `backlog`. All four are
//          seq_cst, so at least one of the two sees the other's write. With a relaxed add the store may pass the load
//          on AArch64.
//   NIN-5  Of a paused peer no message is delivered; what is queued for it still goes out. drain() takes all of them.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>

#include "core/net/endpoint/doorbell.h"
#include "core/net/endpoint/endpoint.h"
#include "core/net/endpoint/peers.h"

namespace troupe::net {

/// Counters that one thread at a time writes (guarded by a role or lock) and anybody reads.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Outbox {
 public:
  Outbox(PeerTable& peers, Doorbell& doorbell) : peers_(peers), doorbell_(doorbell) {}

  bool send(ProcessId to, const FrameHeader& header, std::span<const ByteView> pieces);
  /// Writes what waits, as far as there is room.
  void flush(std::uint32_t slot, Peer& peer);
  /// As the reader of the peer's ring: tells it that there is room.
  void tell_space(Peer& peer);
  /// The slot that was written to last (a hint).
  std::uint32_t last_slot() const noexcept { return last_slot_.load(std::memory_order_relaxed); }

  std::atomic<std::uint64_t> event_rings{0}, futex_rings{0}, queued{0};

 private:
  void flush_locked(std::uint32_t slot, Peer& peer);
  void enqueue(Peer& peer, const FrameHeader& header, PieceCursor& rest, std::size_t sent, bool started);
  void publish_and_ring(Peer& peer, std::uint64_t published_before);
  void ring(Peer& peer);
  void break_locked(std::uint32_t slot, Peer& peer);

  PeerTable& peers_;
  Doorbell& doorbell_;
  std::atomic<std::uint32_t> last_slot_{kNoSlot};
};

class Inbox {
 public:
  Inbox(PeerTable& peers, Doorbell& doorbell, Outbox& outbox) : peers_(peers), doorbell_(doorbell), outbox_(outbox) {}

  /// Delivers at most `budget` messages. 0: nothing was there.
  int poll(Handler& handler, int budget);
  /// Is there anything for poll to do?
  bool ready() const noexcept;
  /// Delivers all that the peer has published. The slot's peer must not be `visiting`.
  std::size_t drain(std::uint32_t slot, Handler& handler);
  /// Tears the peer down, at once or, while one of its messages is being handled, right after it.
  void close(std::uint32_t slot);
  void pause(std::uint32_t slot) { peers_.get(slot)->paused = true; }
  void resume(std::uint32_t slot);
  /// Does the peer that we talked to last listen on this CPU?
  bool shares_cpu() const noexcept;

  Counter received, polls;

 private:
  static constexpr int kVisitMax = 32;
  static constexpr int kHotPatience = 8;  // polls in which only others had something, before another becomes hot

  int visit(std::uint32_t slot, int limit, Handler& handler);
  int read(std::uint32_t slot, Peer& peer, int limit, Handler& handler);
  void note_source(std::uint32_t slot);
  void report_broken(Peer& peer, Handler& handler);
  void tear_down(std::uint32_t slot, Peer& peer);
  bool hot_ready() const noexcept;

  PeerTable& peers_;
  Doorbell& doorbell_;
  Outbox& outbox_;
  SlotSet pending_;           // bits taken from the doorbell, not yet looked at
  std::uint32_t cursor_ = 0;  // where the next round goes on
  std::uint32_t hot_ = kNoSlot;
  int hot_misses_ = 0;
  std::uint32_t last_slot_ = kNoSlot;
};

}  // namespace troupe::net
