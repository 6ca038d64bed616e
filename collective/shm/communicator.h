// ShmCommunicator: a group whose ranks share memory (shm/segment.h). Each rank writes only its own lines and slots and
// reads its peers' (exceptions: SG-1).
//
// Everything is made of *rounds*: a rank writes its part into its own buffer, publishes a sequence number, waits until
// all have published the same, and reads what it needs from the others. The next part is written before the wait, so
// that ranks that are a little apart do not stop each other. An all-reduce takes
//
//   up to 40 bytes      the flag line itself: one cache line each way (32 with a factor, pre_mul_sum)
//   a little more       every rank publishes its input; every rank reduces all of them (two ranks: up to 2 KiB; n: to 1
//                       MiB / n)
//   above               chunk by chunk: publish, reduce the own share of the chunk, publish that, copy the others'
//                       shares
//
// Waiting: poll; pause while every rank can have a core of its own, else yield at once; after kSleepAfter, or with too
// few cores after as many yields as communicator.cc says, sleep on the bell.
//
// Invariants
//   SHC-1  Every element is reduced in rank order, whatever the size, the chunk and the share: all ranks and runs get
//          equal bits.
//   SHC-2  The signature of the operation travels with the sequence number: a mismatch is found before data is read.
//   SHC-3  Reductions, broadcasts and gathers allocate nothing, but where a rank that has waited for long begins to
//          watch the others' processes (watch.h), or tells a larger group for whom it waits. No system call unless
//          somebody waits for long; where ranks outnumber the cores, whoever waits yields.
//   SHC-4  A group ends with each of the groups that it was split from, however far above: with any of their members,
//          and when they are formed again.
// Thread rule: see communicator.h.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/base/communicator.h"
#include "collective/shm/messages.h"
#include "collective/shm/segment.h"
#include "collective/base/signature.h"
#include "collective/shm/watch.h"
#include "kernels/cpu/isa/dtype.h"
#include "kernels/cpu/reduce/reduce.h"

namespace troupe::collective {

/// What a larger group tells its part on one node: so that errors speak of that group's ranks, and long waits are known
/// there.
struct ShmPart {
  std::vector<int> names;                       ///< the ranks here, in the larger group
  /// called before each sleep, by the rank's thread; when to be called again
  std::function<Clock::time_point()> waiting;
  /// whom to name, by the larger group's ranks, where the time is up and these of them have not come
  std::function<std::vector<int>(const std::vector<int>& awaited)> to_blame;
};

/// Bytes that one rank gives to the others, or to some.
struct ShmParcel {
  const std::byte* from = nullptr;  ///< on the rank that gives it
  std::byte* to = nullptr;          ///< on the ranks that want it; null on the others
  std::size_t bytes = 0;            ///< the same on all
};

class ShmCommunicator final : public Communicator {
 public:
  using Segments = std::vector<std::shared_ptr<ShmSegment>>;
  /// Takes the place of `rank` in the segment. `above`: the groups that this one was split from, the nearest first.
  ShmCommunicator(std::shared_ptr<ShmSegment> segment, int rank, Segments above = {});
  ~ShmCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return ranks_; }
  Backend backend() const override { return Backend::kShm; }
  std::uint64_t epoch() const override { return segment_->epoch(); }
  bool run(const detail::Operation& operation, Patience& patience) override {
    return run(operation, signature_of(operation), patience);
  }
  bool agree_on(const Signature& what, Patience& patience) override {
    return run({.kind = detail::Kind::kBarrier}, what, patience);
  }
  void post(Transfer& transfer) override { messages_.post(transfer); }
  bool pump() override;
  bool wait_messages(Clock::time_point deadline, Environment* environment) override;
  void nudge() override;
  bool stale() override {
    const auto superseded = [](const std::shared_ptr<ShmSegment>& one) {
      return one->control().next_epoch.load(std::memory_order_acquire) != 0;
    };
    return superseded(segment_) || std::ranges::any_of(above_, superseded);
  }
  void fail(const Failure& failure) override { segment_->fail(failure); }
  std::optional<Failure> failure() override;
  std::unique_ptr<Communicator> split(int color, int key, Patience& patience) override;
  const std::shared_ptr<ShmSegment>& segment() const { return segment_; }

  /// Before the first operation.
  void belong_to(ShmPart part) {
    part_ = std::move(part);
    messages_.call_ranks(part_.names);
  }
  /// For whom the rank's thread waits at this moment, within an operation; by their names.
  std::vector<int> awaited() const { return meeting_ == 0 ? std::vector<int>() : not_come_to(meeting_); }
  /// For a group that has messages elsewhere as well: are there any here, has anything come for them, let go of them
  /// all.
  bool has_messages() const { return messages_.under_way(); }
  bool messages_changed() { return messages_.changed(); }
  void forget_messages() { messages_.clear(); }
  /// One step of a larger operation, which all ranks know by `as`.
  bool run(const detail::Operation& operation, const Signature& as, Patience& patience);
  /// Hands parcels over: by giver, each giver's in an order that all ranks share. Nobody leaves before all have come.
  bool deliver(const std::vector<std::vector<ShmParcel>>& parcels, const Signature& as, Patience& patience);

 private:
  class Wait;
  struct Share { std::size_t begin, size; };

  void publish(std::uint64_t sequence);
  bool meet(std::uint64_t sequence, Patience& patience);
  bool met(std::uint64_t sequence);
  bool mismatch(int peer, std::uint64_t sequence);
  std::vector<int> not_come_to(std::uint64_t sequence) const;
  bool timed_out(std::uint64_t sequence, Patience& patience);
  template <class Ready> bool sleep(Patience& patience, Ready ready);
  void watch_members();
  bool cores_fit() const;
  template <class Write, class Read> bool rounds(std::size_t count, Patience& patience, Write write, Read read);

  bool all_reduce(const detail::Operation& operation, Patience& patience);
  bool all_reduce_tiny(const detail::Operation& operation, Patience& patience);
  bool all_reduce_one_shot(const detail::Operation& operation, Patience& patience);
  bool all_reduce_shares(const detail::Operation& operation, Patience& patience);
  bool broadcast(const detail::Operation& operation, Patience& patience);
  bool gather(const detail::Operation& operation, Patience& patience);
  bool scatter(const detail::Operation& operation, Patience& patience);
  bool reduce_scatter(const detail::Operation& operation, Patience& patience);
  bool all_to_all(const detail::Operation& operation, Patience& patience);
  bool all_to_all_parts(const detail::Operation& operation, const std::vector<std::size_t>& matrix, Patience& patience);
  /// `also`: the result a second time; stream is about that one then.
  void reduce_into(void* out, std::size_t count, bool stream, void* also = nullptr);
  void copy(void* to, const void* from, std::size_t bytes, bool stream = false);
  int name(int rank) const { return part_.names.empty() ? rank : part_.names[std::size_t(rank)]; }
  bool wants_result(const detail::Operation& operation) const {
    return operation.kind != detail::Kind::kReduce || operation.peer == rank_;
  }

  std::shared_ptr<ShmSegment> segment_;
  Segments above_;
  int rank_, ranks_;
  ShmPart part_;
  std::uint64_t sequence_ = 0, meeting_ = 0; // the last one taken; the one in which it sleeps, 0: in none
  Signature current_;
  std::size_t element_ = 1;                  // bytes, of the operation that runs
  kernels::DType type_{};
  kernels::ReduceOptions reduce_;
  std::vector<const void*> inputs_;          // one a rank, reused
  ShmMessages messages_;
  std::atomic<bool> nudged_{false};
  struct Watched { ShmSegment* segment; int rank; bool done = false; };
  std::vector<Watched> watched_;             // the ranks of this group and of those above; the index is its number
  bool told_unwatched_ = false;              // the log has it that somebody could not be watched
  std::unique_ptr<Watch> watch_;
};

/// `count` rounds: write(i, own buffer), then read(i, sequence) when all have written theirs.
template <class Write, class Read>
bool ShmCommunicator::rounds(std::size_t count, Patience& patience, Write write, Read read) {
  const std::uint64_t first = sequence_ + 1;
  sequence_ += count;
  write(std::size_t(0), segment_->buffer(rank_, first));
  publish(first);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 1 < count) {
      write(i + 1, segment_->buffer(rank_, first + i + 1));
      publish(first + i + 1);
    }
    if (!meet(first + i, patience)) return false;
    read(i, first + i);
  }
  return true;
}

}  // namespace troupe::collective
