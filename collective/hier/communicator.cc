// The two parts as one: failures, waits, splits. Then the operations, and messages.
#include "collective/hier/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/thread.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/reduce/reduce.h"

namespace troupe::collective {

using detail::Kind;

namespace {

constexpr auto kTellAfter = std::chrono::milliseconds(50);
constexpr auto kSlice = std::chrono::milliseconds(100);  // watcher and listener look whether they are still wanted

}  // namespace

HierCommunicator::HierCommunicator(const std::vector<int>& nodes, std::unique_ptr<ShmCommunicator> inside,
                                   std::unique_ptr<TcpCommunicator> across, HierOptions options)
    : map_(nodes, across->rank()), options_(options), inside_(std::move(inside)), across_(std::move(across)) {
  across_->links()->know_nodes(nodes);
  if (!inside_) return;
  const auto to_blame = [this](const std::vector<int>& awaited) {
    across_->links()->look();
    return across_->links()->to_blame(number_, awaited);
  };
  inside_->belong_to({.names = map_.here(), .waiting = [this] { return waiting(); }, .to_blame = to_blame});
  across_->links()->on_failure([segment = inside_->segment()](const Failure& failure) {  // HCM-2
    segment->fail(failure);
    if (failure.reason == Reason::kStale && segment->control().next_epoch.load() == 0)
      segment->supersede(ShmSegment::kDestroyed);
  });
  watcher_ = start_thread([this] { watch_inside(); });
}

HierCommunicator::~HierCommunicator() {
  {
    std::lock_guard lock(listener_mutex_);
    stopping_.store(true);
  }
  listener_wakes_.notify_all();
  if (!watcher_.joinable()) return;
  inside_->segment()->wake_all();
  watcher_.join();
  if (listener_.joinable()) listener_.join();
}

Result<std::unique_ptr<HierCommunicator>> HierCommunicator::over(const std::vector<int>& nodes,
                                                                 std::unique_ptr<TcpCommunicator> across,
                                                                 Patience& patience, HierOptions options) {
  struct Entry { std::int64_t pid, fd; std::uint64_t key; };
  const NodeMap map(nodes, across->rank());
  const auto why = [&] {
    const Failure failure = across->failure().value_or(Failure{Reason::kBackend, "no reason was given", {}});
    return CollectiveError::from({.reason = failure.reason,
                                  .epoch = across->epoch(),
                                  .operation = "join",
                                  .rank = across->rank(),
                                  .missing_ranks = failure.missing_ranks},
                                 failure.text);
  };
  Entry own{::getpid(), -1, 0};
  std::vector<Entry> all(nodes.size());
  std::shared_ptr<ShmSegment> segment;
  const auto take = [&](Result<std::shared_ptr<ShmSegment>> made) {
    if (made.ok()) segment = *std::move(made);
    else across->fail(failure_of_attaching(made.error_ptr(), map.here().front()));
  };
  if (map.here().size() > 1 && map.place() == 0) {
    own.key = (across->options().key + 1 + std::uint64_t(map.node())) * 0x9e3779b97f4a7c15u;
    take(ShmSegment::create({.ranks = int(map.here().size()), .epoch = across->epoch(), .key = own.key}));
    if (segment) own.fd = segment->fd();
  }
  const detail::Operation table{.kind = Kind::kAllGather,
                                .type = detail::DType::kU8,
                                .in = &own,
                                .in_count = sizeof own,
                                .out = all.data(),
                                .out_count = all.size() * sizeof own};
  if (!across->run(table, patience)) return why();
  const Entry& first = all[std::size_t(map.here().front())];
  if (map.place() != 0) take(ShmSegment::attach_from(int(first.pid), int(first.fd), first.key));
  // Nobody goes on before all have opened what the first of their node holds open.
  if (!across->run({.kind = Kind::kBarrier}, patience)) return why();
  auto inside = segment ? std::make_unique<ShmCommunicator>(std::move(segment), map.place()) : nullptr;
  return std::make_unique<HierCommunicator>(nodes, std::move(inside), std::move(across), options);
}

void HierCommunicator::watch_inside() {
  while (!stopping_.load())
    if (inside_->segment()->await_failure(kSlice)) {
      (void)broken();
      return;
    }
}

/// What has failed inside fails across as well (HCM-2).
bool HierCommunicator::broken() {
  if (inside_ && inside_->segment()->has_failed()) {
    const Failure failure = inside_->segment()->failure();
    if (failure.reason == Reason::kStale) across_->links()->supersede();
    else across_->fail(failure);
  }
  return across_->links()->has_failed();
}

/// Also where it had failed before; and its parts with it, which follow the sockets.
bool HierCommunicator::stale() {
  if (inside_ && inside_->stale()) across_->links()->supersede();
  return across_->stale();
}

std::optional<Failure> HierCommunicator::failure() {
  (void)broken();
  return across_->failure();
}

/// From now on this rank works on the next step of the operation, wherever it waits.
Progress HierCommunicator::next_step() {
  if (number_ != 0) across_->links()->is_through();
  const Progress as{across_->next_number(), signature_};
  number_ = as.sequence;
  tell_at_ = {};
  across_->links()->working_on(as);
  return as;
}

/// A rank that sleeps inside is not heard across: after a while it says where it is and for whom it waits, and again
/// after some time, as that may have changed (HCM-3).
Clock::time_point HierCommunicator::waiting() {
  const auto now = Clock::now();
  if (tell_at_ == Clock::time_point{})
    tell_at_ = now + std::min<Clock::duration>(kTellAfter, std::chrono::duration_cast<Clock::duration>(timeout_) / 4);
  if (now < tell_at_) return tell_at_;
  across_->links()->tell_progress(inside_->awaited());
  return tell_at_ = now + kTellAfter;
}

bool HierCommunicator::meet(const Progress& as, Patience& patience) {
  return !inside_ || inside_->deliver(std::vector<std::vector<ShmParcel>>(map_.here().size()), as.signature, patience);
}

/// All have come and mean the same (HCM-1, HCM-3).
bool HierCommunicator::agree(Patience& patience) {
  const Progress as = next_step();
  const std::vector<int> leaders = map_.leaders();
  if (!meet(as, patience)) return false;
  if (map_.place() == 0 && !across_->run_among(leaders, as, {.kind = Kind::kBarrier}, patience)) return false;
  return meet(as, patience);
}

/// Where one part fails in it, the other does (HCM-2).
template <class Body> bool HierCommunicator::as_one(Body body) {
  try {
    if (body()) {
      across_->links()->is_through();
      return true;
    }
  } catch (...) {  // interrupted, and one part has failed by that
    (void)broken();
    throw;
  }
  (void)broken();
  return false;
}

bool HierCommunicator::run(const detail::Operation& operation, Patience& patience) {
  if (broken()) return false;
  signature_ = signature_of(operation);
  type_ = kernels::DType(operation.type);
  element_ = kernels::size_of(type_);
  timeout_ = patience.timeout();
  const Call call{operation, static_cast<const std::byte*>(operation.in), static_cast<std::byte*>(operation.out),
                  patience};
  return as_one([&] { return dispatch(call); });
}

bool HierCommunicator::agree_on(const Signature& what, Patience& patience) {
  if (broken()) return false;
  signature_ = what;
  timeout_ = patience.timeout();
  return as_one([&] { return agree(patience); });
}

std::unique_ptr<Communicator> HierCommunicator::split(int color, int key, Patience& patience) {
  if (!run({.kind = Kind::kSplit}, patience)) return nullptr;
  std::unique_ptr<TcpCommunicator> child(
      static_cast<TcpCommunicator*>(across_->split(color, key, patience).release()));
  if (!child) return nullptr;
  const std::vector<int> ranks_above = child->ranks_above();
  const std::int32_t own = map_.node();
  std::vector<std::int32_t> nodes(static_cast<std::size_t>(child->size()));
  const detail::Operation table{.kind = Kind::kAllGather,
                                .type = detail::DType::kI32,
                                .in = &own,
                                .in_count = 1,
                                .out = nodes.data(),
                                .out_count = nodes.size()};
  if (!child->run(table, patience)) {
    across_->links()->fail_for_part(*child->failure(), ranks_above);  // HCM-2
    return nullptr;
  }
  // A failure of this group fails the sockets of the child, which fail its memory.
  auto made = over(nodes, std::move(child), patience, options_);
  if (made.ok()) return *std::move(made);
  across_->links()->fail_for_part(failure_of(made.error()), ranks_above);
  return nullptr;
}

// ---------------------------------------------------------------------------------------------------------- operations

// The operations of HierCommunicator.

namespace {

// All-reduces from here on go by columns. Two nodes, so called, of two ranks on two cores with other work, loopback
// between them, median of 300 (30 from 1 MiB on), leaders and columns alternating: 64 KiB 0.31 and 0.49 ms, 128 KiB
// 0.99 and 1.00, 256 KiB 1.59 and 1.39, 512 KiB 2.44 and 2.57, 1 MiB 6.7 and 6.1, 4 MiB 21 and 16, 16 MiB 56 and 43.
constexpr std::size_t kColumnsMin = 256u << 10;
constexpr std::size_t kRoundBytes = 4u << 20;      // what a leader reduces in one round: bounds the scratch
constexpr std::size_t kOrderedBytes = 16u << 20;  // of the input, in one round of a reduction in rank order
constexpr std::size_t kOneShotMax = 256u << 10;   // all inputs together: everybody gets and reduces all of them

/// Between nodes, and in a node before that: what is done to every input comes first, what is done to the sum last.
Op between(Op op) { return op.kind() == Op::kAvg || op.kind() == Op::kPreMulSum ? Op(Op::kSum) : op; }
Op within(Op op) { return op.kind() == Op::kAvg ? Op(Op::kSum) : op; }

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0 && to != from) kernels::copy(to, from, bytes, {.stream = false});
}

}  // namespace

std::byte* HierCommunicator::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

bool HierCommunicator::dispatch(const Call& call) {
  const detail::Operation& operation = call.operation;
  if (operation.kind != Kind::kSplit && map_.nodes() == map_.ranks()) return across_->run(operation, call.patience);
  if (operation.kind != Kind::kSplit && map_.nodes() == 1)
    return inside_->run(operation, next_step().signature, call.patience);
  const bool in_order = across_->options().deterministic;
  switch (operation.kind) {
    case Kind::kAllReduce: return in_order ? reduce_in_order(call) : all_reduce(call);
    case Kind::kReduce: return in_order ? reduce_in_order(call) : reduce_by_leaders(call, 0);
    case Kind::kReduceScatter:
      return in_order || !map_.regular() ? reduce_scatter_in_order(call) : reduce_scatter(call);
    default: break;
  }
  if (!agree(call.patience)) return false;
  switch (operation.kind) {
    case Kind::kBroadcast: return broadcast(call);
    case Kind::kAllGather:
    case Kind::kAllGatherV: return all_gather(call);
    case Kind::kGather:
    case Kind::kGatherV: return gather(call);
    case Kind::kScatter:
    case Kind::kScatterV: return scatter(call);
    case Kind::kAllToAll:
    case Kind::kAllToAllV: return all_to_all(call);
    default: return true;  // a barrier; a split agrees first
  }
}

/// An operation of one part, with the memories and counts still open.
detail::Operation HierCommunicator::step_of(const Call& call, Kind kind, Op op) const {
  return {.kind = kind, .type = call.operation.type, .op = op};
}

/// The last step of an average: by the number of all ranks.
void HierCommunicator::average(const Call& call, std::byte* sum, std::size_t count) const {
  if (call.operation.op.kind() != Op::kAvg || count == 0) return;
  const void* const one[1] = {sum};
  kernels::reduce(sum, one, count, type_, {.op = kernels::ReduceOp::kAvg, .ranks = size()});
}

// -------------------------------------------------------------------------------------------- reductions, node by node

bool HierCommunicator::all_reduce(const Call& call) {
  const std::size_t count = call.operation.in_count, places = map_.here().size();
  std::size_t done = 0;
  if (map_.regular() && count * element_ >= (options_.columns_min ? options_.columns_min : kColumnsMin)) {
    done = count / places * places;
    if (!all_reduce_by_columns(call, done)) return false;
  }
  return done == count && done != 0 ? true : reduce_by_leaders(call, done);
}

/// all_reduce and reduce of the elements from `begin` on.
bool HierCommunicator::reduce_by_leaders(const Call& call, std::size_t begin) {
  const detail::Operation& operation = call.operation;
  const int root = operation.kind == Kind::kReduce ? operation.peer : -1;
  const std::vector<int> leaders = map_.leaders(root);
  const int leader = leaders[std::size_t(map_.node())];
  const bool leads = leader == rank();
  std::size_t at = begin;
  do {
    const std::size_t n = std::min(kRoundBytes / element_, operation.in_count - at), bytes = n * element_;
    const std::byte* const in = call.in + at * element_;
    std::byte* const out = root < 0 || root == rank() ? call.out + at * element_ : nullptr;
    std::byte* const sum = leads ? scratch(bytes) : nullptr;
    const Progress as = next_step();
    detail::Operation up = step_of(call, Kind::kReduce, within(operation.op));
    up.peer = map_.place_of(leader), up.in = in, up.out = sum, up.in_count = up.out_count = n;
    if (inside_) {
      if (!inside_->run(up, as.signature, call.patience)) return false;
    } else if (operation.op.kind() == Op::kPreMulSum && n != 0) {
      const void* const one[1] = {in};
      kernels::reduce(sum, one, n, type_, {.op = kernels::ReduceOp::kPreMulSum, .scale = operation.op.scale()});
    } else {
      copy_bytes(sum, in, bytes);
    }
    if (leads) {
      detail::Operation level = step_of(call, operation.kind, between(operation.op));
      level.peer = operation.peer, level.in = level.out = sum, level.in_count = level.out_count = n;
      if (!across_->run_among(leaders, as, level, call.patience)) return false;
      if (out) average(call, sum, n);
    }
    if (root < 0 && inside_) {
      detail::Operation down = step_of(call, Kind::kBroadcast, {});
      down.peer = map_.place_of(leader), down.in = down.out = leads ? sum : out, down.in_count = down.out_count = n;
      if (!inside_->run(down, as.signature, call.patience)) return false;
    } else if (!meet(as, call.patience)) {  // HCM-3
      return false;
    }
    if (leads && out) copy_bytes(out, sum, bytes);
    at += n;
  } while (at < operation.in_count);
  return true;
}

/// The first `count` elements, a multiple of the node's size.
bool HierCommunicator::all_reduce_by_columns(const Call& call, std::size_t count) {
  const Op op = call.operation.op;
  const std::size_t places = map_.here().size();
  const std::vector<int> column = map_.column();
  for (std::size_t at = 0, n = 0; at < count; at += n * places) {
    n = std::min(kRoundBytes / element_, (count - at) / places);
    const Progress as = next_step();
    std::byte* const own = scratch(n * element_);
    detail::Operation down = step_of(call, Kind::kReduceScatter, within(op)),
                      level = step_of(call, Kind::kAllReduce, between(op)), up = step_of(call, Kind::kAllGather, {});
    down.in = call.in + at * element_, down.in_count = n * places, down.out = own, down.out_count = n;
    level.in = level.out = own, level.in_count = level.out_count = n;
    up.in = own, up.in_count = n, up.out = call.out + at * element_, up.out_count = n * places;
    if (!inside_->run(down, as.signature, call.patience) || !across_->run_among(column, as, level, call.patience))
      return false;
    average(call, own, n);
    if (!inside_->run(up, as.signature, call.patience)) return false;
  }
  return true;
}

// The parts for the ranks with one place go to the rank of that place here, which adds them with its column.
bool HierCommunicator::reduce_scatter(const Call& call) {
  const Op op = call.operation.op;
  const std::size_t part = call.operation.out_count, nodes = std::size_t(map_.nodes()), places = map_.here().size();
  const std::vector<int> column = map_.column();
  std::size_t at = 0;
  do {
    const std::size_t n = std::min(std::max<std::size_t>(1, kRoundBytes / element_ / nodes), part - at),
                      bytes = n * element_;
    const Progress as = next_step();
    std::byte *const packed = scratch((places + 1) * nodes * bytes), *const own = packed + places * nodes * bytes;
    for (int r = 0; r < size(); ++r)
      copy_bytes(packed + (std::size_t(map_.place_of(r)) * nodes + std::size_t(map_.node_of(r))) * bytes,
                 call.in + (std::size_t(r) * part + at) * element_, bytes);
    detail::Operation down = step_of(call, Kind::kReduceScatter, within(op)),
                      level = step_of(call, Kind::kReduceScatter, between(op));
    down.in = packed, down.in_count = places * nodes * n, down.out = own, down.out_count = nodes * n;
    level.in = own, level.in_count = nodes * n, level.out = call.out + at * element_, level.out_count = n;
    if (!inside_->run(down, as.signature, call.patience) || !across_->run_among(column, as, level, call.patience))
      return false;
    average(call, call.out + at * element_, n);
    at += n;
  } while (at < part);
  return true;
}

// ------------------------------------------------------------------------------------------- reductions, in rank order

/// out = the contributions of all ranks, `stride` elements from each other.
void HierCommunicator::reduce_all(const Call& call, std::byte* out, const std::byte* all, std::size_t count,
                                  std::size_t stride) const {
  if (count == 0) return;
  std::vector<const void*> inputs;
  for (int r = 0; r < size(); ++r) inputs.push_back(all + std::size_t(r) * stride * element_);
  kernels::reduce(out, inputs, count, type_,
                  {kernels::ReduceOp(call.operation.op.kind()), call.operation.op.scale(), size(), false});
}

bool HierCommunicator::reduce_in_order(const Call& call) {
  const detail::Operation& operation = call.operation;
  const std::size_t count = operation.in_count, ranks = std::size_t(size());
  if (count * element_ * ranks > kOneShotMax) return reduce_shares_in_order(call);
  const Progress as = next_step();
  std::byte* const all = scratch(count * element_ * ranks);
  if (!move(as, all_gather_plan(map_, std::vector<std::size_t>(ranks, count)), call.in, all, call.patience))
    return false;
  if (operation.kind == Kind::kAllReduce || operation.peer == rank()) reduce_all(call, call.out, all, count, count);
  return true;
}

bool HierCommunicator::reduce_shares_in_order(const Call& call) {
  const detail::Operation& operation = call.operation;
  const std::size_t ranks = std::size_t(size()), me = std::size_t(rank());
  const bool to_all = operation.kind == Kind::kAllReduce;
  std::vector<std::size_t> sizes(ranks), slots(ranks);
  for (std::size_t at = 0, n = 0; at < operation.in_count; at += n) {
    n = std::min(kOrderedBytes / element_, operation.in_count - at);
    for (std::size_t r = 0; r < ranks; ++r) sizes[r] = share({int(ranks), int(r)}, n).size();
    for (std::size_t r = 0; r < ranks; ++r) slots[r] = r * sizes[me];
    const std::vector<std::size_t> begins = offsets_of(sizes);
    std::byte *const all = scratch(ranks * sizes[me] * element_), *const own = all + slots[me] * element_;
    const auto size_for = [&](int, int to) { return std::optional(sizes[std::size_t(to)]); };
    if (!move(next_step(), pairs_plan(map_, {size_for, begins, slots}), call.in + at * element_, all, call.patience))
      return false;
    reduce_all(call, own, all, sizes[me], sizes[me]);
    const auto size_to_root = [&](int from, int to) {
      return to == operation.peer ? std::optional(sizes[std::size_t(from)]) : std::nullopt;
    };
    const MovePlan back = to_all ? all_gather_plan(map_, sizes)
                                 : pairs_plan(map_, {size_to_root, std::vector<std::size_t>(ranks, 0), begins});
    std::byte* const out = to_all || operation.peer == rank() ? call.out + at * element_ : nullptr;
    if (!move(next_step(), back, own, out, call.patience)) return false;
  }
  return true;
}

bool HierCommunicator::reduce_scatter_in_order(const Call& call) {
  const std::size_t part = call.operation.out_count, ranks = std::size_t(size());
  std::vector<std::size_t> ins(ranks), slots(ranks);
  std::size_t at = 0;
  do {
    const std::size_t n = std::min(std::max<std::size_t>(1, kOrderedBytes / element_ / ranks), part - at);
    for (std::size_t r = 0; r < ranks; ++r) ins[r] = r * part + at, slots[r] = r * n;
    std::byte* const all = scratch(ranks * n * element_);
    if (!move(next_step(), pairs_plan(map_, {[&](int, int) { return std::optional(n); }, ins, slots}), call.in, all,
              call.patience))
      return false;
    reduce_all(call, call.out + at * element_, all, n, n);
    at += n;
  } while (at < part);
  return true;
}

// ----------------------------------------------------------------------------------------------------- what only moves

bool HierCommunicator::move(const Progress& as, const MovePlan& plan, const std::byte* in, std::byte* data,
                            Patience& patience) {
  if (!across_->run_moves(as, plan.across, {in, data, nullptr, element_}, patience)) return false;
  if (!inside_) return true;
  std::vector<std::vector<ShmParcel>> parcels(plan.inside.size());
  for (std::size_t giver = 0; giver < parcels.size(); ++giver)
    for (const Parcel& parcel : plan.inside[giver]) {
      const std::byte* const base = parcel.from.memory == Memory::kInput ? in : data;
      parcels[giver].push_back({giver == std::size_t(map_.place()) ? base + parcel.from.begin * element_ : nullptr,
                                parcel.wanted ? data + parcel.to * element_ : nullptr, parcel.from.size() * element_});
    }
  return inside_->deliver(parcels, as.signature, patience);
}

bool HierCommunicator::broadcast(const Call& call) {
  const Progress as = next_step();
  const std::vector<int> leaders = map_.leaders(call.operation.peer);
  const int leader = leaders[std::size_t(map_.node())];
  if (leader == rank() && !across_->run_among(leaders, as, call.operation, call.patience)) return false;
  if (!inside_) return true;
  detail::Operation down = call.operation;
  down.peer = map_.place_of(leader);
  return inside_->run(down, as.signature, call.patience);
}

bool HierCommunicator::all_gather(const Call& call) {
  const detail::Operation& operation = call.operation;
  const auto counts =
      operation.counts.empty() ? std::vector<std::size_t>(std::size_t(size()), operation.in_count) : operation.counts;
  return move(next_step(), all_gather_plan(map_, counts), call.in, call.out, call.patience);
}

bool HierCommunicator::gather(const Call& call) {
  const detail::Operation& operation = call.operation;
  const auto counts =
      operation.counts.empty() ? std::vector<std::size_t>(std::size_t(size()), operation.in_count) : operation.counts;
  const auto sizes = [&](int from, int to) {
    return to == operation.peer ? std::optional(counts[std::size_t(from)]) : std::nullopt;
  };
  return move(next_step(), pairs_plan(map_, {sizes, std::vector<std::size_t>(counts.size(), 0), offsets_of(counts)}),
              call.in, call.out, call.patience);
}

bool HierCommunicator::scatter(const Call& call) {
  const detail::Operation& operation = call.operation;
  const auto counts =
      operation.counts.empty() ? std::vector<std::size_t>(std::size_t(size()), operation.out_count) : operation.counts;
  const auto sizes = [&](int from, int to) {
    return from == operation.peer ? std::optional(counts[std::size_t(to)]) : std::nullopt;
  };
  return move(next_step(), pairs_plan(map_, {sizes, offsets_of(counts), std::vector<std::size_t>(counts.size(), 0)}),
              call.in, call.out, call.patience);
}

bool HierCommunicator::all_to_all(const Call& call) {
  const detail::Operation& operation = call.operation;
  const std::size_t ranks = std::size_t(size());
  const bool equal = operation.kind == Kind::kAllToAll;
  const std::vector<std::size_t> part(ranks, operation.in_count / ranks), &out = equal ? part : operation.counts,
                                                                          &in = equal ? part : operation.recv_counts;
  std::vector<std::uint64_t> sent;
  if (!equal && !exchange_counts(call, sent)) return false;
  const auto sizes = [&](int from, int to) {
    return std::optional<std::size_t>(equal ? part[0] : sent[2 * ranks * std::size_t(from) + std::size_t(to)]);
  };
  return move(next_step(), pairs_plan(map_, {sizes, offsets_of(out), offsets_of(in)}), call.in, call.out,
              call.patience);
}

/// What every rank sends to each, then what it wants of each, rank after rank: all find the same mismatch before any
/// data moves.
bool HierCommunicator::exchange_counts(const Call& call, std::vector<std::uint64_t>& all) {
  const std::size_t ranks = std::size_t(size());
  std::vector<std::uint64_t> own(call.operation.counts.begin(), call.operation.counts.end());
  own.insert(own.end(), call.operation.recv_counts.begin(), call.operation.recv_counts.end());
  all.resize(2 * ranks * ranks);
  const std::size_t element = std::exchange(element_, sizeof all[0]);
  const auto* const from_here = reinterpret_cast<const std::byte*>(own.data());
  const bool ok = move(next_step(), all_gather_plan(map_, std::vector<std::size_t>(ranks, 2 * ranks)), from_here,
                       reinterpret_cast<std::byte*>(all.data()), call.patience);
  element_ = element;
  for (std::size_t from = 0; ok && from < ranks; ++from)
    for (std::size_t to = 0; to < ranks; ++to) {
      const std::uint64_t sent = all[2 * ranks * from + to], wanted = all[2 * ranks * to + ranks + from];
      if (sent == wanted) continue;
      across_->fail(
          {Reason::kMismatch,
           fmt::format("all_to_all_v: rank {} sends {} elements to rank {}, which wants {}", from, sent, to, wanted),
           {}});
      return false;
    }
  return ok;
}

// ------------------------------------------------------------------------------------------------------------ messages

// Messages of HierCommunicator: by memory between ranks of a node, else by sockets, and how one rank waits for both
// (HCM-5).

void HierCommunicator::post(Transfer& transfer) {
  const bool here = inside_ && transfer.peer != rank() && map_.together(transfer.peer, rank());
  if (!here) return across_->post(transfer);
  transfer.peer = map_.place_of(transfer.peer);
  inside_->post(transfer);
}

bool HierCommunicator::pump() {
  if (inside_ && broken()) inside_->forget_messages();  // they belong to others, who have let go of them or do so now
  const bool moved = across_->pump();
  return (inside_ && inside_->has_messages() && inside_->pump()) || moved;
}

bool HierCommunicator::wait_messages(Clock::time_point deadline, Environment* environment) {
  if (broken()) return false;
  if (!inside_ || !inside_->has_messages()) return across_->wait_messages(deadline, environment);
  if (!across_->has_messages()) {
    (void)inside_->wait_messages(deadline, environment);
    return !broken();
  }
  const int place = map_.place();
  ShmSegment& segment = *inside_->segment();
  const std::uint32_t seen = segment.announce_sleep(place);
  // a cancelled call throws
  struct Sleep { ShmSegment& segment; int place; ~Sleep() { segment.end_sleep(place); } } sleep{segment, place};
  if (inside_->messages_changed() || broken()) return !broken();
  listen_for(seen);
  (void)across_->wait_messages(deadline, environment);
  return !broken();
}

/// A rank waits for one of the two or for both: who wants it awake does not know which.
void HierCommunicator::nudge() {
  across_->nudge();
  if (inside_) inside_->nudge();
}

void HierCommunicator::listen_for(std::uint32_t seen) {
  {
    std::lock_guard lock(listener_mutex_);
    listen_from_ = seen;
  }
  listener_wakes_.notify_one();
  if (listener_.joinable()) return;
  listener_ = start_thread([this] { listen(); });
}

/// A wait that is over is not called off: until the bell is rung, the next one would wait for the same.
void HierCommunicator::listen() {
  std::unique_lock lock(listener_mutex_);
  for (;;) {
    listener_wakes_.wait(lock, [this] { return stopping_.load() || listen_from_; });
    if (stopping_.load()) return;
    const std::uint32_t seen = *std::exchange(listen_from_, std::nullopt);
    lock.unlock();
    inside_->segment()->wait_bell(map_.place(), seen, Clock::now() + kSlice);
    across_->links()->wake();
    lock.lock();
  }
}

}  // namespace troupe::collective
