// HierCommunicator: a group whose ranks are on several nodes: memory within a node, sockets between nodes.
//
//   inside   a ShmCommunicator of the ranks of this node; none where this rank is alone
//   across   a TcpCommunicator of all ranks, of which an operation uses those that it needs
//
// Messages between two ranks of a node go inside, all others across (HCM-5). Where every rank is alone on its node, all
// operations but a split are of `across`; where all are on one node, of `inside`.
//
// An operation is a row of *steps*, each with a number that all ranks count alike:
//
//   all_reduce       small, or nodes of unequal size: to a leader of each node, all-reduce of the leaders, from the
//                    leader to its node;
//                    from kColumnsMin on, equal nodes: reduce-scatter in the node, all-reduce of the ranks with the
//                    same place, all-gather
//   reduce, broadcast                 by leaders; the root is its node's
//   reduce_scatter   equal nodes: in the node first, then by place
//   reductions in rank order          every rank gets its share of all inputs, reduces it, and gives it to those that
//                                     want it; up to kOneShotMax of all inputs everybody reduces everything
//   what only moves                   as plan.h says
//
//   inside fails --a thread that waits for that, or this rank's next look--> across fails, and tells all nodes
//   across fails --TcpLinks::on_failure------------------------------------> inside fails with the same
//
// Invariants
//   HCM-1  Both parts carry the signature of the whole operation. The output is written when this node's ranks have
//          compared theirs, and the leader of the node (by columns: each rank) with the other nodes.
//   HCM-2  One failure: when a part fails the other does, also while nobody is in an operation; ranks are named as in
//          this group.
//   HCM-3  Nobody leaves an operation before all have come to it. A rank that waits, inside or across, tells all so in
//          time, and for whom; so a deadline names those that are not known to have come, nor to wait for others
//          (tcp/blame.h).
//   HCM-4  With `deterministic` (of `across`) every element is reduced in rank order, as in shared memory. Without,
//          in a node in rank order, between nodes as their schedule has it: equal bits on all ranks and runs of one
//          configuration; 16-bit floats are rounded once a node, at each reduction between nodes, and once more for
//          an average.
//   HCM-5  All messages of a pair take the same way, so that each part's order is the group's. A rank that waits for
//          messages of both parts sleeps on the sockets, and a thread of its own listens for its bell in memory
//          meanwhile.
// Thread rule: see communicator.h.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "collective/base/communicator.h"
#include "collective/hier/plan.h"
#include "collective/shm/communicator.h"
#include "collective/base/signature.h"
#include "collective/tcp/communicator.h"
#include "kernels/cpu/isa/dtype.h"
#include <troupe/result.h>

namespace troupe::collective {

struct HierOptions {
  std::size_t columns_min = 0;  ///< bytes from which an all-reduce goes by columns; 0: as measured
};

class HierCommunicator final : public Communicator {
 public:
  /// nodes: a number for the node of each rank. `inside` has this node's ranks in the order of the group; null when
  /// this rank is alone there.
  HierCommunicator(const std::vector<int>& nodes, std::unique_ptr<ShmCommunicator> inside,
                   std::unique_ptr<TcpCommunicator> across, HierOptions options = {});
  ~HierCommunicator() override;

  /// All ranks of `across` call it: the first of each node makes the memory, the others open it through that process.
  /// What went wrong is told to all, and returned.
  static Result<std::unique_ptr<HierCommunicator>> over(const std::vector<int>& nodes,
                                                        std::unique_ptr<TcpCommunicator> across, Patience& patience,
                                                        HierOptions options = {});

  int rank() const override { return map_.rank(); }
  int size() const override { return map_.ranks(); }
  Backend backend() const override { return Backend::kHier; }
  std::uint64_t epoch() const override { return across_->epoch(); }
  bool run(const detail::Operation& operation, Patience& patience) override;
  bool agree_on(const Signature& what, Patience& patience) override;
  void post(Transfer& transfer) override;
  bool pump() override;
  bool wait_messages(Clock::time_point deadline, Environment* environment) override;
  void nudge() override;
  bool stale() override;
  void fail(const Failure& failure) override { across_->fail(failure); }
  std::optional<Failure> failure() override;
  std::unique_ptr<Communicator> split(int color, int key, Patience& patience) override;

 private:
  struct Call { const detail::Operation& operation; const std::byte* in; std::byte* out; Patience& patience; };
  Progress next_step();
  bool agree(Patience& patience);
  template <class Body> bool as_one(Body body);
  bool meet(const Progress& as, Patience& patience);
  bool broken();
  void watch_inside();
  void listen_for(std::uint32_t seen);
  void listen();
  Clock::time_point waiting();

  bool dispatch(const Call& call);
  bool all_reduce(const Call& call);
  bool reduce_by_leaders(const Call& call, std::size_t begin);
  bool all_reduce_by_columns(const Call& call, std::size_t count);
  bool reduce_scatter(const Call& call);
  bool reduce_in_order(const Call& call);
  bool reduce_shares_in_order(const Call& call);
  bool reduce_scatter_in_order(const Call& call);
  bool broadcast(const Call& call);
  bool all_gather(const Call& call);
  bool gather(const Call& call);
  bool scatter(const Call& call);
  bool all_to_all(const Call& call);
  bool exchange_counts(const Call& call, std::vector<std::uint64_t>& all);
  bool move(const Progress& as, const MovePlan& plan, const std::byte* in, std::byte* data, Patience& patience);
  detail::Operation step_of(const Call& call, detail::Kind kind, Op op) const;
  void average(const Call& call, std::byte* sum, std::size_t count) const;
  void reduce_all(const Call& call, std::byte* out, const std::byte* all, std::size_t count, std::size_t stride) const;
  std::byte* scratch(std::size_t bytes);

  const NodeMap map_;
  const HierOptions options_;
  std::unique_ptr<ShmCommunicator> inside_;
  std::unique_ptr<TcpCommunicator> across_;
  Signature signature_;
  std::uint64_t number_ = 0;
  std::size_t element_ = 1;            // bytes, of the operation that runs
  kernels::DType type_{};
  Duration timeout_{};
  Clock::time_point tell_at_{};        // when a rank that waits inside tells all what it waits in
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread watcher_;
  std::mutex listener_mutex_;
  std::condition_variable listener_wakes_;
  // what the bell stood at when the rank went to sleep; none: nobody sleeps, or it is listened for
  std::optional<std::uint32_t> listen_from_;
  std::thread listener_;                            // begins with the first wait for both parts
};

}  // namespace troupe::collective
