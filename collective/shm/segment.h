// ShmSegment: the memory that the ranks of one group on one node share, and its layout.
//
//   control page     magic, sizes, key, epoch; failure records, and which one counts; who sleeps
//   per rank         flag lines (kRing of them) and one cursor a peer for messages, written by that rank alone; a bell,
//                    counted up by whoever wakes it
//   per rank         kRing buffers of slot_bytes written by that rank (SG-1)
//   per pair         a ring of bytes for messages written by the sender alone
//
// It is a memfd without a name: one process makes it, the others get its descriptor, and when the last has let go of
// it, it is gone, however they ended.
//
//   a flag line:     | sequence | signature | count | 40 bytes of payload |   one cache line, one writer
//
// The scale of a signature (signature.h) takes the last eight bytes of the payload, where it says anything.
//
// Invariants
//   SG-1  Every line but those of the control page and the bells has one writer. Sequence numbers only grow; nothing
//         is ever reset. One exception: in an all-reduce by shares of two ranks, the other rank writes its share into
//         the buffer of s, after it has seen s and before it publishes s + 1; the owner writes there next at s + 4,
//         after it has fetched the share.
//   SG-2  Line and buffer of sequence s are number s mod kRing. A rank publishes s only after it has seen s - 2, or
//         s - 1, of all ranks, and looks at nothing older than its own last s - 1: so no line is overwritten while
//         somebody may look at it. In the middle of an all-reduce by shares, a rank looks at the others' s - 2: there
//         they publish s + 2 only after its s + 1.
//   SG-3  A failure is written whole into a record that nobody else writes, and then made the group's by one exchange
//         on `failed`: the first counts. A process that is killed before the exchange has used up a record and hinders
//         nobody; when all are used up, `failed` holds the reason alone.
//   SG-4  A rank that is about to sleep says so and looks again; a rank that publishes looks for sleepers afterwards.
//         The sleeper's membarrier stands for the fence between the publisher's two steps, so that publishing costs
//         none.
// Thread rule: a process may attach any number of times; one thread at a time acts as a rank. fail(), has_failed() and
// failure(): any thread.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collective/base/failure.h"
#include "core/base/fd.h"
#include <troupe/result.h>

namespace troupe::collective {

inline constexpr int kShmRanksMax = 512;
inline constexpr unsigned kRing = 4;
inline constexpr std::size_t kPayload = 40, kScaledPayload = 32;

struct alignas(64) FlagLine {
  std::atomic<std::uint64_t> sequence;
  std::uint64_t signature;
  std::uint64_t count;
  std::byte payload[kPayload];
  std::uint64_t scale() const {
    std::uint64_t bits;
    std::memcpy(&bits, payload + kScaledPayload, sizeof bits);
    return bits;
  }
  void set_scale(std::uint64_t bits) { std::memcpy(payload + kScaledPayload, &bits, sizeof bits); }
};
static_assert(kScaledPayload + sizeof(std::uint64_t) == kPayload && sizeof(FlagLine) == 64);

/// One rank's own lines. The gaps keep the processor's fetching of line pairs from joining two writers.
struct RankLines {
  alignas(128) FlagLine flags[kRing];
  alignas(128) std::atomic<std::uint32_t> bell;      // futex word, counted up by whoever wakes the sleeper
  std::atomic<std::uint32_t> sleeping;
  alignas(128) std::atomic<std::int32_t> pid;        // 0: not here yet; -1: left in peace
  std::atomic<std::uint64_t> started;                // the process's start time, as /proc tells it
  std::atomic<std::uint64_t> cores[16];              // where it may run: a bit a core
};

/// Messages from one rank to another: bytes written (by the sender) and read (by the receiver) since the beginning.
struct alignas(128) Written { std::atomic<std::uint64_t> bytes; };
struct alignas(128) Read { std::atomic<std::uint64_t> bytes; };

/// Why the group has come to its end, as one process sees it; written before it counts, never after (SG-3).
struct FailureRecord {
  std::uint8_t reason;
  std::uint32_t missing[kShmRanksMax / 32];
  char text[1024];
};
inline constexpr std::uint32_t kFailureRecords = 16;

struct ShmControl {
  std::uint64_t magic;
  std::uint32_t version, ranks;
  std::uint64_t epoch, key, slot_bytes, message_bytes, total_bytes;
  std::atomic<std::uint32_t> strong_fence;           // a member cannot be reached by membarrier: publishers fence
  alignas(128) std::atomic<std::uint32_t> sleepers;  // read at every publish, so alone on its line
  // futex word: 0, or 1 + the record that counts, or kReasonOnly | the reason
  alignas(128) std::atomic<std::uint32_t> failed;
  std::atomic<std::uint32_t> records_taken;
  FailureRecord records[kFailureRecords];
  static constexpr std::uint32_t kReasonOnly = 1u << 31;
  // futex word in its low half; 0: none yet; ~0: the group was destroyed
  alignas(128) std::atomic<std::uint64_t> next_epoch;
};

/// The size of a rank's buffer, by the ranks and the cache that the cores share (index3 in sysfs). Pure.
/// Measured on two cores, 256 MiB. Four ranks: on a Zen 3 guest (32 MiB of that cache) 67 to 91 ms with 1 MiB, 69 to 90
/// (once 144) with 512 KiB, 99 to 115 with 2 MiB, where all buffers together fill the cache; on a Sapphire Rapids guest
/// 205 with 512 KiB, 125 with 2 to 8 MiB: each switch between ranks that share a core costs a chunk's wait, so chunks
/// are as large as the cache lets them be. (Its cache was not noted; processors of that kind have three times as much
/// and more. Between the two nothing was measured: the size is taken in proportion.) Two ranks: 512 KiB to 2 MiB are
/// alike. All ranks' buffers together are at most 256 MiB.
std::size_t usual_slot(int ranks, std::size_t shared_cache);

struct ShmLayout {
  int ranks = 0;
  std::uint64_t epoch = 0, key = 0;
  std::size_t slot_bytes = 0;     ///< of each of a rank's kRing buffers; 0: usual_slot()
};

class ShmSegment {
 public:
  static Result<std::shared_ptr<ShmSegment>> create(const ShmLayout& layout);
  /// Maps what another process made, after checking that it is that. The descriptor is kept.
  static Result<std::shared_ptr<ShmSegment>> attach(UniqueFd fd, std::uint64_t key);
  /// As attach, from a process of the same user on this machine that has it open. WorkerCrashedError: that process is
  /// gone.
  static Result<std::shared_ptr<ShmSegment>> attach_from(int pid, int fd, std::uint64_t key);
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  int fd() const { return fd_.get(); }
  int ranks() const { return int(ranks_); }
  std::uint64_t epoch() const { return control_->epoch; }
  std::uint64_t key() const { return control_->key; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  std::size_t message_bytes() const { return message_bytes_; }

  ShmControl& control() { return *control_; }
  RankLines& lines(int rank) { return lines_[rank]; }
  FlagLine& flag(int rank, std::uint64_t sequence) { return lines_[rank].flags[sequence % kRing]; }
  std::byte* buffer(int rank, std::uint64_t sequence) {
    return slots_ + (std::size_t(rank) * kRing + sequence % kRing) * slot_bytes_;
  }
  Written& written(int from, int to) { return written_[std::size_t(from) * ranks_ + to]; }
  Read& read(int from, int to) { return read_[std::size_t(to) * ranks_ + from]; }
  std::byte* messages(int from, int to) { return messages_ + (std::size_t(from) * ranks_ + to) * message_bytes_; }

  /// Takes the place of a rank: leaves the process's number, start time and cores, and makes its pages present.
  void enter(int rank);
  /// Wakes a rank that sleeps (one's own, from another thread).
  void ring(int rank);
  /// Can every rank have a core of its own? By the cores that the ranks here may use between them.
  bool cores_fit() {
    const std::int32_t known = cores_fit_.load(std::memory_order_relaxed);
    return known >= 0 ? known == 1 : count_cores();
  }
  /// The rank leaves in peace: its end is no failure of the group.
  void leave(int rank);

  bool has_failed() const { return control_->failed.load(std::memory_order_acquire) != 0; }
  Failure failure() const;
  /// The group has come to its end; the first word counts. Wakes everybody.
  void fail(const Failure& failure);
  void wake_all();
  /// This epoch is of the past: its handles are stale, whoever waits fails. `next`: the epoch that follows; kDestroyed:
  /// none.
  static constexpr std::uint64_t kDestroyed = ~std::uint64_t(0);
  void supersede(std::uint64_t next);
  /// Blocks the thread until the group has failed, or for `limit` at most; true when it has.
  bool await_failure(std::chrono::milliseconds limit);
  /// Wakes those that sleep, after something was published.
  void wake_sleepers() {
    if (control_->strong_fence.load(std::memory_order_relaxed) != 0)
      std::atomic_thread_fence(std::memory_order_seq_cst);
    else std::atomic_signal_fence(std::memory_order_seq_cst);
    if (control_->sleepers.load(std::memory_order_relaxed) != 0) wake_all_sleepers();
  }
  /// Sleeps as `rank` until somebody publishes or the deadline passes; `look_again` is asked once more before.
  template <class Ready> void sleep(int rank, std::chrono::steady_clock::time_point deadline, Ready&& look_again) {
    const std::uint32_t seen = announce_sleep(rank);
    if (!look_again() && !has_failed()) wait_bell(rank, seen, deadline);
    end_sleep(rank);
  }
  /// The steps of a sleep, for a rank that sleeps on something else at the same time: from announce_sleep to end_sleep
  /// its bell is rung as if it slept here, and wait_bell, of any thread, returns once the bell has been rung since.
  std::uint32_t announce_sleep(int rank);
  void wait_bell(int rank, std::uint32_t seen, std::chrono::steady_clock::time_point deadline);
  void end_sleep(int rank);

 private:
  struct Sizes { std::size_t ranks, slot_bytes, message_bytes, total_bytes; };
  ShmSegment(UniqueFd fd, std::byte* memory, const Sizes& sizes);
  void wake_all_sleepers();
  bool count_cores();

  std::atomic<std::int32_t> cores_fit_{-1};          // -1: not all ranks are here yet
  UniqueFd fd_;
  std::byte* memory_;
  std::size_t bytes_;
  ShmControl* control_;
  const std::size_t ranks_, slot_bytes_, message_bytes_;
  RankLines* lines_ = nullptr;
  Written* written_ = nullptr;
  Read* read_ = nullptr;
  std::byte* slots_ = nullptr;
  std::byte* messages_ = nullptr;
};

/// Why attach_from gave nothing: the death of the rank whose process had made it, or something else.
Failure failure_of_attaching(const ErrorPtr& error, int maker);

/// The start time of a process in clock ticks, 0 when there is none: with the number it names a process for good.
std::uint64_t process_start_time(int pid);

}  // namespace troupe::collective
