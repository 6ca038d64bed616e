// The two parts as one: failures, waits, splits. The operations: hier_operations.cc; messages: hier_messages.cc.
#include "collective/hier_communicator.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "core/base/thread.h"

namespace troupe::collective {

using detail::Kind;

namespace {

constexpr auto kTellAfter = std::chrono::milliseconds(50);
constexpr auto kSlice = std::chrono::milliseconds(100);  // the watcher looks whether it is still wanted

}  // namespace

HierCommunicator::HierCommunicator(const std::vector<int>& nodes, std::unique_ptr<ShmCommunicator> inside, std::unique_ptr<TcpCommunicator> across, HierOptions options)
    : map_(nodes, across->rank()), options_(options), inside_(std::move(inside)), across_(std::move(across)) {
  across_->links()->know_nodes(nodes);
  if (!inside_) return;
  const auto missing = [this] {
    across_->links()->look();
    return across_->links()->not_arrived(number_);
  };
  inside_->belong_to({.names = map_.here(), .waiting = [this] { return waiting(); }, .missing = missing});
  across_->links()->on_failure([segment = inside_->segment()](const Failure& failure) {  // HC-2
    segment->fail(failure);
    if (failure.reason == Reason::kStale && segment->control().next_epoch.load() == 0) segment->supersede(ShmSegment::kDestroyed);
  });
  watcher_ = start_thread([this] { watch_inside(); });
}

HierCommunicator::~HierCommunicator() {
  {
    std::lock_guard lock(ear_mutex_);
    stopping_.store(true);
  }
  ear_wakes_.notify_all();
  if (!watcher_.joinable()) return;
  inside_->segment()->wake_all();
  watcher_.join();
  if (ear_.joinable()) ear_.join();
}

Result<std::unique_ptr<HierCommunicator>> HierCommunicator::over(const std::vector<int>& nodes, std::unique_ptr<TcpCommunicator> across, Patience& patience, HierOptions options) {
  struct Entry { std::int64_t pid, fd; std::uint64_t key; };
  const NodeMap map(nodes, across->rank());
  const auto why = [&] {
    const Failure failure = across->failure().value_or(Failure{Reason::kBackend, "no reason was given", {}});
    return CollectiveError::from({.reason = failure.reason, .epoch = across->epoch(), .operation = "join", .rank = across->rank(), .missing_ranks = failure.missing_ranks}, failure.text);
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
  const detail::Operation table{.kind = Kind::kAllGather, .type = detail::DType::kU8, .in = &own, .in_count = sizeof own, .out = all.data(), .out_count = all.size() * sizeof own};
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

/// What has failed inside fails across as well (HC-2).
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
Progress HierCommunicator::turn() {
  const Progress as{across_->next_number(), signature_};
  number_ = as.sequence;
  tell_at_ = {};
  across_->links()->working_on(as);
  return as;
}

/// A rank that sleeps inside is not heard across: after a while it says where it is (HC-3).
Clock::time_point HierCommunicator::waiting() {
  const auto now = Clock::now();
  if (tell_at_ == Clock::time_point{}) tell_at_ = now + std::min<Clock::duration>(kTellAfter, std::chrono::duration_cast<Clock::duration>(timeout_) / 4);
  if (now < tell_at_) return tell_at_;
  across_->links()->tell_progress();
  return Clock::time_point::max();
}

bool HierCommunicator::meet(const Progress& as, Patience& patience) {
  return !inside_ || inside_->deliver(std::vector<std::vector<ShmParcel>>(map_.here().size()), as.signature, patience);
}

/// All have come and mean the same (HC-1, HC-3).
bool HierCommunicator::agree(Patience& patience) {
  const Progress as = turn();
  const std::vector<int> speakers = map_.speakers();
  if (!meet(as, patience)) return false;
  if (map_.place() == 0 && !across_->run_among(speakers, as, {.kind = Kind::kBarrier}, patience)) return false;
  return meet(as, patience);
}

/// Where one part fails in it, the other does (HC-2).
template <class Body> bool HierCommunicator::as_one(Body body) {
  try {
    if (body()) return true;
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
  const Call call{operation, static_cast<const std::byte*>(operation.in), static_cast<std::byte*>(operation.out), patience};
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
  auto child = across_->split(color, key, patience);
  if (!child) return nullptr;
  const std::int32_t own = map_.node();
  std::vector<std::int32_t> nodes(static_cast<std::size_t>(child->size()));
  const detail::Operation table{.kind = Kind::kAllGather, .type = detail::DType::kI32, .in = &own, .in_count = 1, .out = nodes.data(), .out_count = nodes.size()};
  if (!child->run(table, patience)) {
    across_->fail(*child->failure());
    return nullptr;
  }
  // A failure of this group fails the sockets of the child, which fail its memory.
  auto made = over(nodes, std::unique_ptr<TcpCommunicator>(static_cast<TcpCommunicator*>(child.release())), patience, options_);
  if (made.ok()) return *std::move(made);
  across_->fail({Reason::kBackend, made.error().message(), {}});
  return nullptr;
}

}  // namespace troupe::collective
