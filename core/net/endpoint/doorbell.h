// The doorbell: how a process is told that something came, whichever of its threads listens. One shared page and one
// eventfd a process; the page is mapped by every peer.
//
//   sleep    epoch << 2 | mode, changed only by the process that owns the doorbell (the holder of its consumer role)
//   cpu      where the thread runs that listens (a peer that spins on the same one should yield instead)
//   events   futex word, counted up by whoever wakes the sleeper
//   ready    two levels of bits, one bit a pair: "look at this ring". Set by peers, cleared by the owner
//
//                    +------- nothing came for a while ------> kAsleep   a ringer counts events up and wakes the futex
//       kAwake ------+------- nobody listens any more -------> kUnheld   a ringer writes the eventfd
//          ^                                                      |
//          +------------------- each way back --------------------+      kAsleep and kUnheld begin a new epoch
//
// Why nothing is lost (all accesses seq_cst, so there is one order of them all): a ringer publishes its record, looks
// at the bit and sets it if it is clear, then reads `sleep`. The owner writes `sleep`, then looks at the bits (and at
// the ring whose bit it leaves set); and when it takes a bit it clears the bit before it looks at the ring. Of two such
// pairs of steps at least one sees what the other wrote.
//
// Thread rule: Doorbell's listen_* and set_mode: the holder of the consumer role. Everything else: any thread.
//
// Invariants
//   DB-1  `sleep` has one writer at a time, who never reads it back to decide what it does; ring_self and unheld read
//         it as any ringer does.
//   DB-2  A ringer rings once an epoch: the wake it caused is either still under way or has ended the epoch.
//   DB-3  Bits are hints: the owner checks whether the pair exists and the ring has anything. A wrong bit costs a look.
//   DB-4  The futex is not private: the waker is another process.
#pragma once
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>

#include <troupe/result.h>
#include "core/base/fd.h"
#include "core/net/ring/ring_memory.h"

namespace troupe::net {

inline constexpr std::uint32_t kReadyBits = 4096;
inline constexpr std::uint32_t kNoSlot = ~0u;

/// Waits on a futex word until it differs from `expected`, is woken, or the deadline passes; spurious returns happen.
/// False when the deadline passed.
enum class FutexScope { kThisProcess, kShared };
bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::steady_clock::time_point deadline, FutexScope scope) noexcept;
void futex_wake(std::atomic<std::uint32_t>* word, int count, FutexScope scope) noexcept;
/// The CPU that the caller runs on: two loads where the kernel has rseq.
int current_cpu() noexcept;

enum class ListenMode : std::uint64_t { kAwake = 0, kAsleep = 1, kUnheld = 2 };

struct DoorbellPage {
  alignas(128) std::atomic<std::uint64_t> sleep;
  std::atomic<std::int32_t> cpu;
  alignas(128) std::atomic<std::uint32_t> events;
  alignas(128) std::atomic<std::uint64_t> summary;  // bit i: words[i] may have bits. Shares a line with the first words
  std::atomic<std::uint64_t> words[kReadyBits / 64];
};
inline constexpr std::size_t kDoorbellBytes = 4096;
static_assert(sizeof(DoorbellPage) <= kDoorbellBytes);

/// A set of slots in this process's own memory, same shape as the ready bits. Not thread-safe.
class SlotSet {
 public:
  void add(std::uint32_t slot) { add_word(slot / 64, std::uint64_t{1} << (slot % 64)); }
  void add_word(std::uint32_t word, std::uint64_t bits) {
    if (bits == 0) return;
    words_[word] |= bits;
    summary_ |= std::uint64_t{1} << word;
  }
  void remove(std::uint32_t slot) {
    if ((words_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64))) == 0) summary_ &= ~(std::uint64_t{1} << (slot / 64));
  }
  bool empty() const { return summary_ == 0; }
  /// The first member at or after `from`, going round; the set is not empty.
  std::uint32_t next(std::uint32_t from) const;

 private:
  std::uint64_t summary_ = 0;
  std::uint64_t words_[kReadyBits / 64] = {};
};

/// Another process's doorbell (or the own one, seen like a peer's).
class PeerDoorbell {
 public:
  PeerDoorbell() = default;
  static Result<PeerDoorbell> open(int doorbell_fd, UniqueFd event);

  enum class Rang { kNo, kFutex, kEvent };
  /// Says "look at that slot" and wakes the process when it does not listen. To be called after publishing. DB-2.
  Rang ring(std::uint32_t slot) noexcept;
  /// Wakes it whatever the page says.
  void ring_always() noexcept;
  int cpu() const noexcept { return page_->cpu.load(std::memory_order_relaxed); }

 private:
  SharedMapping memory_;
  DoorbellPage* page_ = nullptr;
  UniqueFd event_;
  std::uint64_t rung_ = 0;  // value of sleep at which we rang last; as modes 1 and 2 only are rung, 0 is none
};

/// This process's own doorbell.
class Doorbell {
 public:
  static Result<Doorbell> create();

  int fd() const noexcept { return fd_.get(); }
  int event_fd() const noexcept { return event_.get(); }

  // ---- the holder of the consumer role
  ListenMode mode() const noexcept { return mode_; }
  void set_mode(ListenMode mode) noexcept;
  void publish_cpu() noexcept;
  std::uint32_t events() const noexcept { return page_->events.load(std::memory_order_seq_cst); }
  /// Sleeps while events() is still `seen`, at most to the deadline.
  void listen_sleep(std::uint32_t seen, std::chrono::steady_clock::time_point deadline) noexcept;
  /// Moves the ready bits into `into`. The bit of `keep` stays set and is not moved: its ring is looked at directly.
  void listen_collect(SlotSet& into, std::uint32_t keep) noexcept;
  /// Is any bit set besides `keep`?
  bool listen_any(std::uint32_t keep) const noexcept;
  void listen_set(std::uint32_t slot) noexcept;    ///< sets a bit, to keep it
  void listen_clear(std::uint32_t slot) noexcept;  ///< clears it; the ring is to be looked at afterwards

  // ---- any thread
  /// Does the page say that nobody listens? It does a moment before the holder has gone.
  bool unheld() const noexcept;
  /// Ends the holder's sleep.
  void wake_sleeper() noexcept;
  /// Calls the service thread.
  void call_service() noexcept;
  /// As a peer would: says "look at that slot" and wakes whoever is to listen.
  void ring_self(std::uint32_t slot) noexcept;

 private:
  SharedMapping memory_;
  DoorbellPage* page_ = nullptr;
  UniqueFd fd_, event_;
  ListenMode mode_ = ListenMode::kUnheld;  // DB-1
  std::uint64_t epoch_ = 1;
  std::int32_t cpu_ = -1;
};

}  // namespace troupe::net
