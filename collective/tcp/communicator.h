// TcpCommunicator: a group whose ranks are joined by stream sockets. Operations become schedules (schedule.h), which
// are carried out on TcpStreams: sends and receives are posted as early as the steps before them allow, and whatever
// the sockets take or give is moved in between.
//
// Waiting: poll the sockets (a sleep and its wake cost 30 us and more); after kSpin, or at once where the ranks here
// outnumber the cores, sleep; who waits for messages alone sleeps at once. A rank that has slept for kTellAfter tells
// all what it waits in, so that ranks that wait in different operations find that out, and a deadline knows who has not
// come.
//
// Invariants
//   TCM-1  With `deterministic`, and with up to eight ranks always, every element is reduced in rank order (CSD-3): the
//          same bits as in shared memory.
//   TCM-2  A step that writes waits until nothing under way reads or writes there; one that reads, until nothing writes
//          there.
//   TCM-3  When the time is up the ranks are named that are not known to have come, or if all are those for whom this
//          rank waits; who is known to wait for others itself is not named, but those others are (blame.h).
//   TCM-4  What keeps the sockets of a split from being made fails the group with the same reason, in the group's ranks
//          (CFL-1).
// Thread rule: see communicator.h.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/base/communicator.h"
#include "collective/schedule/schedule.h"
#include "collective/tcp/links.h"
#include "collective/tcp/streams.h"
#include "kernels/cpu/isa/dtype.h"
#include "kernels/cpu/reduce/reduce.h"
#include <troupe/result.h>

namespace troupe::collective {

/// Makes the links of a new group among some ranks of an old one; all of them call it. exchange: what each rank of the
/// *old* group gives, in rank order (bytes, equal sizes); false when the group fails meanwhile.
struct Subgroup {
  /// ranks of the old group, in the order of the new one; empty: this rank only takes part in the exchange
  std::vector<int> members;
  int rank = -1;
  std::uint64_t key = 0;     ///< the same on all members, known to nobody else
  std::function<bool(const void* own, void* all, std::size_t bytes)> exchange;
};
using Connect = std::function<Result<std::shared_ptr<TcpLinks>>(TcpLinks& old, const Subgroup& subgroup,
                                                                Clock::time_point deadline)>;

struct TcpOptions {
  bool deterministic = false;
  int ranks_here = 0;              ///< on this machine; 0: all of them
  std::uint64_t key = 0;           ///< secret of the group
  Connect connect = {};            ///< for split; empty: by sockets of their own on the address of the group's
  std::size_t piece_bytes = 0;     ///< of direct schedules; 0: as measured
};

class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(std::shared_ptr<TcpLinks> links, TcpOptions options);
  ~TcpCommunicator() override;

  int rank() const override { return links_->rank(); }
  int size() const override { return links_->ranks(); }
  Backend backend() const override { return Backend::kTcp; }
  std::uint64_t epoch() const override { return links_->epoch(); }
  bool run(const detail::Operation& operation, Patience& patience) override;
  bool agree_on(const Signature& what, Patience& patience) override {
    return through(run_among(all_, {++sequence_, what}, {.kind = detail::Kind::kBarrier}, patience));
  }
  void post(Transfer& transfer) override { streams_.post(transfer); }
  bool pump() override;
  bool wait_messages(Clock::time_point deadline, Environment* environment) override;
  void nudge() override { links_->wake(); }
  bool stale() override { return links_->stale(); }
  void fail(const Failure& failure) override { links_->fail(failure); }
  std::optional<Failure> failure() override { return links_->failure(); }
  std::unique_ptr<Communicator> split(int color, int key, Patience& patience) override;

  const std::shared_ptr<TcpLinks>& links() const { return links_; }
  /// The ranks of this group in the one that it was split from; empty: it was not split from any.
  const std::vector<int>& ranks_above() const { return ranks_above_; }
  const TcpOptions& options() const { return options_; }

  bool has_messages() const { return streams_.has_messages(); }

  struct Memories {
    const std::byte* input = nullptr;
    std::byte* data = nullptr;
    std::byte* scratch = nullptr;
    std::size_t element = 1;
  };
  /// Steps of larger operations, each with a number of its own, which all ranks take at the same point, whether they
  /// take part in the step or not; `as` says what the larger operation is.
  std::uint64_t next_number() { return ++sequence_; }
  /// One operation of some of the ranks; its root is a rank of the group, its counts are the members'.
  bool run_among(const std::vector<int>& members, const Progress& as, const detail::Operation& operation,
                 Patience& patience);
  /// A schedule over all ranks, without steps that reduce.
  bool run_moves(const Progress& as, const Schedule& schedule, const Memories& memories, Patience& patience);

 private:
  struct Window { const std::byte *begin, *end; int peer; std::uint64_t number; };
  template <class Body> bool step(const std::vector<int>& members, const Progress& as, Body body);
  bool through(bool well);
  bool dispatch(const detail::Operation& operation, Patience& patience);
  bool all_reduce(const detail::Operation& operation, Patience& patience);
  bool reduce(const detail::Operation& operation, Patience& patience);
  bool reduce_scatter(const detail::Operation& operation, Patience& patience);
  bool broadcast(const detail::Operation& operation, Patience& patience);
  bool all_to_all_v(const detail::Operation& operation, Patience& patience);
  bool move_parts(const detail::Operation& operation, Patience& patience);
  bool execute(const Schedule& schedule, const Memories& memories, Patience& patience);
  bool issue(const Step& step, const Memories& memories);
  void reduce_step(const Step& step, const Memories& memories);
  bool overlaps(const std::vector<Window>& windows, const std::byte* begin, std::size_t bytes) const;
  void prune();
  bool step_wait(Patience& patience);
  bool timed_out(Patience& patience);
  std::vector<int> awaited() const;
  void interrupted(const std::exception& error);
  std::byte* scratch(std::size_t bytes);
  Position position() const { return {int(map_.size()), at_}; }

  std::shared_ptr<TcpLinks> links_;
  TcpOptions options_;
  TcpStreams streams_;
  std::uint64_t sequence_ = 0, splits_ = 0;
  Progress current_;
  std::vector<int> ranks_above_;
  std::vector<int> all_, map_;               // schedule's rank -> rank, of the operation that runs
  int at_ = 0;
  kernels::DType type_{};
  kernels::ReduceOptions reduce_;
  std::vector<const void*> inputs_;
  std::vector<Window> reading_, writing_;    // of sends and receives under way
  std::vector<std::uint64_t> posted_sends_, posted_receives_;  // by rank
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
  Clock::time_point idle_since_{};
  int idle_ = 0;
  bool cores_fit_ = true;
};

}  // namespace troupe::collective
