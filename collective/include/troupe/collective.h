// Collectives: operations in which all members of a group take part, each with its own data.
//
//   create_group(workers, {.name = "dp"});                  // driver; rank = index
//   auto g = collective::group("dp");                       // inside an actor
//   g.all_reduce(gradients);                                // blocking: the fiber is suspended
//   Work w = g.all_reduce_async(bucket, Op::kAvg);  ...  w.wait();
//
// Ranges are contiguous memory of double, float, float16, bfloat16, (u)int8/32/64: vectors, arrays, spans, as input an
// Array, as output an open ArrayBuilder; in a group over NCCL also DeviceArray on both sides. Counts are in elements,
// offsets their prefix sums.
//
// Invariants
//   GR-1  Operations of one group run in the order in which this rank issued them, blocking behind asynchronous ones;
//         messages (send, recv) that follow each other are under way together.
//   GR-2  What is wrong by itself (a root out of range, the size of an output) throws InvalidArgumentError before
//         anything is sent, and the group stays whole. Any other failure throws CollectiveError on all ranks, and the
//         group has failed; the call that was cancelled in an operation throws CancelledError itself.
//   GR-3  The memory of an asynchronous operation is not touched after its Work is gone.
// Thread rule: a Group and its copies may be used from any thread or fiber of the process; operations are then ordered
// as they come. A Work belongs to one thread at a time.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <troupe/actor.h>
#include <troupe/collective_types.h>
#include <troupe/device_array.h>

namespace troupe::collective {

namespace detail {
class Member;  // this process's side of a group
struct Pending;
}  // namespace detail

/// An operation under way. Destroying it waits for the operation.
class [[nodiscard]] Work {
 public:
  Work() noexcept;
  explicit Work(std::shared_ptr<detail::Member> member, std::shared_ptr<detail::Pending> pending) noexcept;
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  /// Waits until it is done, and throws what went wrong with it. False: the timeout expired; the operation goes on.
  bool wait(Duration timeout = kForever);
  /// Is it over, well or not? Never waits.
  bool done();
  /// Later work on the stream comes after this operation; for memory of the CPU the same as wait().
  void wait_on(Stream stream);

 private:
  void finish() noexcept;
  std::shared_ptr<detail::Member> member_;
  std::shared_ptr<detail::Pending> pending_;
};

/// One member's handle of a group: cheap to copy. An empty one throws InvalidArgumentError.
class Group {
 public:
  Group() = default;
  explicit Group(std::shared_ptr<detail::Member> member) noexcept : member_(std::move(member)) {}

  int rank() const;
  int size() const;
  /// How the ranks exchange bytes: never kAuto. kNccl: device memory goes by NCCL.
  Backend backend() const;
  std::uint64_t epoch() const;
  const std::string& name() const;

  // ---- every rank gets the reduction
  template <detail::Output R>
  void all_reduce(R&& data, Op op = {}, OpOptions options = {}) {
    run(in_place(detail::Kind::kAllReduce, data, op, 0, options));
  }
  template <detail::Output R>
  Work all_reduce_async(R&& data, Op op = {}, OpOptions options = {}) {
    return start(in_place(detail::Kind::kAllReduce, data, op, 0, options));
  }
  template <detail::Input I, detail::Output O>
  void all_reduce(I&& in, O&& out, Op op = {}, OpOptions options = {}) {
    run(two(detail::Kind::kAllReduce, in, out, op, 0, options));
  }
  template <detail::Input I, detail::Output O>
  Work all_reduce_async(I&& in, O&& out, Op op = {}, OpOptions options = {}) {
    return start(two(detail::Kind::kAllReduce, in, out, op, 0, options));
  }

  // ---- the root gets the reduction; in place, the data of the others is left as it is
  template <detail::Output R>
  void reduce(R&& data, int root, Op op = {}, OpOptions options = {}) {
    run(in_place(detail::Kind::kReduce, data, op, root, options));
  }
  template <detail::Output R>
  Work reduce_async(R&& data, int root, Op op = {}, OpOptions options = {}) {
    return start(in_place(detail::Kind::kReduce, data, op, root, options));
  }
  template <detail::Input I, detail::Output O>
  void reduce(I&& in, O&& out, int root, Op op = {}, OpOptions options = {}) {
    run(two(detail::Kind::kReduce, in, out, op, root, options));
  }
  template <detail::Input I, detail::Output O>
  Work reduce_async(I&& in, O&& out, int root, Op op = {}, OpOptions options = {}) {
    return start(two(detail::Kind::kReduce, in, out, op, root, options));
  }

  // ---- what the root has, everywhere
  template <detail::Output R>
  void broadcast(R&& data, int root, OpOptions options = {}) {
    run(in_place(detail::Kind::kBroadcast, data, {}, root, options));
  }
  template <detail::Output R>
  Work broadcast_async(R&& data, int root, OpOptions options = {}) {
    return start(in_place(detail::Kind::kBroadcast, data, {}, root, options));
  }

  // ---- out: size() parts, in rank order
  template <detail::Input I, detail::Output O>
  void all_gather(I&& in, O&& out, OpOptions options = {}) {
    run(two(detail::Kind::kAllGather, in, out, {}, 0, options));
  }
  template <detail::Input I, detail::Output O>
  Work all_gather_async(I&& in, O&& out, OpOptions options = {}) {
    return start(two(detail::Kind::kAllGather, in, out, {}, 0, options));
  }
  template <detail::Input I, detail::Output O>
  void gather(I&& in, O&& out, int root, OpOptions options = {}) {
    run(two(detail::Kind::kGather, in, out, {}, root, options));
  }
  template <detail::Input I, detail::Output O>
  Work gather_async(I&& in, O&& out, int root, OpOptions options = {}) {
    return start(two(detail::Kind::kGather, in, out, {}, root, options));
  }

  // ---- in: size() parts; part r goes to rank r
  template <detail::Input I, detail::Output O>
  void reduce_scatter(I&& in, O&& out, Op op = {}, OpOptions options = {}) {
    run(two(detail::Kind::kReduceScatter, in, out, op, 0, options));
  }
  template <detail::Input I, detail::Output O>
  Work reduce_scatter_async(I&& in, O&& out, Op op = {}, OpOptions options = {}) {
    return start(two(detail::Kind::kReduceScatter, in, out, op, 0, options));
  }
  template <detail::Input I, detail::Output O>
  void all_to_all(I&& in, O&& out, OpOptions options = {}) {
    run(two(detail::Kind::kAllToAll, in, out, {}, 0, options));
  }
  template <detail::Input I, detail::Output O>
  Work all_to_all_async(I&& in, O&& out, OpOptions options = {}) {
    return start(two(detail::Kind::kAllToAll, in, out, {}, 0, options));
  }
  template <detail::Input I, detail::Output O>
  void scatter(I&& in, O&& out, int root, OpOptions options = {}) {
    run(two(detail::Kind::kScatter, in, out, {}, root, options));
  }
  template <detail::Input I, detail::Output O>
  Work scatter_async(I&& in, O&& out, int root, OpOptions options = {}) {
    return start(two(detail::Kind::kScatter, in, out, {}, root, options));
  }

  // ---- parts of different sizes
  template <detail::Input I, detail::Output O>
  void all_gather_v(I&& in, O&& out, Counts counts, OpOptions options = {}) {
    run(with(two(detail::Kind::kAllGatherV, in, out, {}, 0, options), std::move(counts)));
  }
  template <detail::Input I, detail::Output O>
  Work all_gather_v_async(I&& in, O&& out, Counts counts, OpOptions options = {}) {
    return start(with(two(detail::Kind::kAllGatherV, in, out, {}, 0, options), std::move(counts)));
  }
  template <detail::Input I, detail::Output O>
  void gather_v(I&& in, O&& out, Counts counts, int root, OpOptions options = {}) {
    run(with(two(detail::Kind::kGatherV, in, out, {}, root, options), std::move(counts)));
  }
  template <detail::Input I, detail::Output O>
  Work gather_v_async(I&& in, O&& out, Counts counts, int root, OpOptions options = {}) {
    return start(with(two(detail::Kind::kGatherV, in, out, {}, root, options), std::move(counts)));
  }
  template <detail::Input I, detail::Output O>
  void scatter_v(I&& in, O&& out, Counts counts, int root, OpOptions options = {}) {
    run(with(two(detail::Kind::kScatterV, in, out, {}, root, options), std::move(counts)));
  }
  template <detail::Input I, detail::Output O>
  Work scatter_v_async(I&& in, O&& out, Counts counts, int root, OpOptions options = {}) {
    return start(with(two(detail::Kind::kScatterV, in, out, {}, root, options), std::move(counts)));
  }
  template <detail::Input I, detail::Output O>
  void all_to_all_v(I&& in, Counts send, O&& out, Counts receive, OpOptions options = {}) {
    run(with(two(detail::Kind::kAllToAllV, in, out, {}, 0, options), std::move(send), std::move(receive)));
  }
  template <detail::Input I, detail::Output O>
  Work all_to_all_v_async(I&& in, Counts send, O&& out, Counts receive, OpOptions options = {}) {
    return start(with(two(detail::Kind::kAllToAllV, in, out, {}, 0, options), std::move(send), std::move(receive)));
  }

  // ---- two ranks; messages of one pair and tag arrive in order
  template <detail::Input R>
  void send(R&& data, int peer, int tag = 0, OpOptions options = {}) {
    run(message(detail::Kind::kSend, data, peer, tag, options));
  }
  template <detail::Input R>
  Work send_async(R&& data, int peer, int tag = 0, OpOptions options = {}) {
    return start(message(detail::Kind::kSend, data, peer, tag, options));
  }
  template <detail::Output R>
  void recv(R&& data, int peer, int tag = 0, OpOptions options = {}) {
    run(message(detail::Kind::kRecv, data, peer, tag, options));
  }
  template <detail::Output R>
  Work recv_async(R&& data, int peer, int tag = 0, OpOptions options = {}) {
    return start(message(detail::Kind::kRecv, data, peer, tag, options));
  }

  /// Nobody leaves before all have come.
  void barrier(OpOptions options = {}) { run(plain(detail::Kind::kBarrier, options)); }
  Work barrier_async(OpOptions options = {}) { return start(plain(detail::Kind::kBarrier, options)); }

  /// Ends the group on all ranks: who waits, and who comes later, gets CollectiveError (kAborted) with this reason. Any
  /// thread.
  void abort(const std::string& reason);
  /// A group of the ranks with the same color, ordered by key, then by rank. A negative color: an empty Group.
  Group split(int color, int key, OpOptions options = {});

 private:
  static detail::Operation plain(detail::Kind kind, const OpOptions& options) {
    detail::Operation operation;
    operation.kind = kind;
    operation.options = options;
    return operation;
  }
  template <class I, class O>
  static detail::Operation two(detail::Kind kind, I& in, O& out, Op op, int root, const OpOptions& options) {
    using T = detail::ElementOf<O>;
    static_assert(std::is_same_v<detail::ElementOf<I>, T>,
                  "input and output of a collective have the same element type");
    detail::Operation operation = plain(kind, options);
    operation.type = detail::DTypeOf<T>::kValue;
    operation.op = op;
    operation.peer = root;
    operation.in = detail::input_of(in);
    operation.in_count = std::ranges::size(in);
    operation.out = std::ranges::data(out);
    operation.out_count = std::ranges::size(out);
    operation.uses(in);
    operation.uses(out);
    return operation;
  }
  template <class R>
  static detail::Operation in_place(detail::Kind kind, R& data, Op op, int root, const OpOptions& options) {
    return two(kind, data, data, op, root, options);
  }
  template <class R>
  static detail::Operation message(detail::Kind kind, R& data, int peer, int tag, const OpOptions& options) {
    detail::Operation operation = plain(kind, options);
    operation.type = detail::DTypeOf<detail::ElementOf<R>>::kValue;
    operation.peer = peer;
    operation.tag = tag;
    operation.in = detail::input_of(data);
    operation.in_count = std::ranges::size(data);
    operation.uses(data);
    if constexpr (detail::Output<R>) {
      if (kind == detail::Kind::kSend) return operation;
      operation.out = std::ranges::data(data);
      operation.out_count = operation.in_count;
    }
    return operation;
  }
  static detail::Operation with(detail::Operation operation, Counts counts, Counts receive = {}) {
    operation.counts = std::move(counts).values();
    operation.recv_counts = std::move(receive).values();
    return operation;
  }
  void run(const detail::Operation& operation) const;
  Work start(detail::Operation operation) const;

  std::shared_ptr<detail::Member> member_;
};

namespace detail {
void create_group(const std::vector<troupe::detail::HandlePtr>& members, const GroupOptions& options);
void reform(const std::string& name, const std::vector<troupe::detail::HandlePtr>& members);
troupe::detail::ObjectPtr broken(const std::string& name);
template <class A> std::vector<troupe::detail::HandlePtr> handles_of(const std::vector<ActorHandle<A>>& actors) {
  std::vector<troupe::detail::HandlePtr> handles;
  handles.reserve(actors.size());
  for (const auto& actor : actors) handles.push_back(troupe::detail::handle_of(actor));
  return handles;
}
}  // namespace detail

/// Forms a group of actors: rank = index. Returns when it is formed; InvalidArgumentError when the name is taken,
/// CollectiveError (kStale) when another process forms one of this name at the same moment; so does reform.
template <class A>
void create_group(const std::vector<ActorHandle<A>>& actors, GroupOptions options) {
  detail::create_group(detail::handles_of(actors), options);
}
/// Forms it again, with other members or the same: the next epoch. Handles of the older epoch fail (kStale).
template <class A>
void reform(const std::string& name, const std::vector<ActorHandle<A>>& actors) {
  detail::reform(name, detail::handles_of(actors));
}
/// Ready when the group's present epoch fails or is ended (reform, destroy_group). NotFoundError in a process that did
/// not form it.
inline ObjectRef<BrokenGroup> broken(const std::string& name) {
  return troupe::detail::make_ref<BrokenGroup>(detail::broken(name));
}
/// Forgets the group; handles of it fail.
void destroy_group(const std::string& name);

/// Inside an actor: its membership of a group. Waits until the group exists, in an epoch after the one given.
Group group(const std::string& name, LookupOptions options = {});
/// For processes that no driver made: all `size` of them call it. kFromEnvironment: as OMPI_COMM_WORLD_RANK and _SIZE
/// (mpirun) or RANK and WORLD_SIZE (torchrun) say; InvalidArgumentError where they do not. TROUPE_COLLECTIVE_BACKEND
/// (shm, tcp) stands for a backend that is kAuto.
Group join(const std::string& name, int rank, int size, JoinOptions options = {});

}  // namespace troupe::collective
