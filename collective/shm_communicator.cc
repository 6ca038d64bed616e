// Waiting, signatures and the order of phases. The operations themselves: shm_reductions.cc, shm_moves.cc.
#include "collective/shm_communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe::collective {

using detail::Kind;

namespace {

constexpr auto kSleepAfter = std::chrono::microseconds(100);  // a sleep costs 20 to 45 us: what is nearer than that is awaited
constexpr int kEagerPolls = 200;                              // before the first pause, which may take 50 ns and more
constexpr int kPollsPerClock = 64;
constexpr int kYieldsMin = 2000;                              // ranks that share a core: a sleep costs more than the yields before it
constexpr auto kYieldsLast = std::chrono::milliseconds(2);    // on a busy machine a yield takes others' whole slices, and deaths are seen asleep only
constexpr auto kSlice = std::chrono::milliseconds(100);       // sleeping ranks look for cancels and for their parent's end

inline void pause_core() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

/// One wait of one rank: what to do between two looks.
class ShmCommunicator::Wait {
 public:
  enum class Step { kAgain, kSleep, kFailed, kTimeout };
  Wait(ShmCommunicator& group, Patience& patience) : group_(group), patience_(patience) {}

  Step next() {
    ++polls_;
    if (polls_ < kEagerPolls) return Step::kAgain;
    if (polls_ % kPollsPerClock == 0 || yields_) {
      if (group_.segment_->has_failed()) return Step::kFailed;
      const auto now = Clock::now();
      if (start_ == Clock::time_point{}) start_ = now;
      if (now - start_ > kSleepAfter && (group_.cores_fit() || yields_ > kYieldsMin || now - start_ > kYieldsLast)) return now >= patience_.deadline() ? Step::kTimeout : Step::kSleep;
    }
    if (group_.cores_fit()) {
      pause_core();
    } else {
      ::sched_yield();
      ++yields_;
    }
    return Step::kAgain;
  }
  /// Polls without pausing make no sense when the peers need this core.
  void begin() { if (!group_.cores_fit()) polls_ = kEagerPolls; }

 private:
  ShmCommunicator& group_;
  Patience& patience_;
  int polls_ = 0, yields_ = 0;
  Clock::time_point start_{};
};

ShmCommunicator::ShmCommunicator(std::shared_ptr<ShmSegment> segment, int rank, std::shared_ptr<ShmSegment> parent)
    : segment_(std::move(segment)), parent_(std::move(parent)), rank_(rank), ranks_(segment_->ranks()), inputs_(std::size_t(ranks_)),
      messages_(*segment_, rank), watched_(std::size_t(ranks_) + (parent_ ? std::size_t(parent_->ranks()) : 0)) {
  segment_->enter(rank);
}

ShmCommunicator::~ShmCommunicator() {
  if (watch_) watch_->stop();
  segment_->leave(rank_);
}

bool ShmCommunicator::cores_fit() const { return segment_->cores_fit(); }

void ShmCommunicator::publish(std::uint64_t sequence) {
  FlagLine& line = segment_->flag(rank_, sequence);
  line.signature = current_.what;
  line.count = current_.count;
  if (current_.has_scale()) line.set_scale(current_.scale);
  line.sequence.store(sequence, std::memory_order_release);
  segment_->wake_sleepers();
}

bool ShmCommunicator::met(std::uint64_t sequence) {
  for (int r = 0; r < ranks_; ++r)
    if (segment_->flag(r, sequence).sequence.load(std::memory_order_acquire) != sequence) return false;
  return true;
}

/// Waits until all ranks have published `sequence`, and checks that they mean the same (SC-2).
bool ShmCommunicator::meet(std::uint64_t sequence, Patience& patience) {
  Wait wait(*this, patience);
  wait.begin();
  for (int r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    FlagLine& line = segment_->flag(r, sequence);
    while (line.sequence.load(std::memory_order_acquire) != sequence) {
      const Wait::Step step = wait.next();
      if (step == Wait::Step::kAgain) continue;
      if (step == Wait::Step::kFailed) return false;
      if (step == Wait::Step::kTimeout) return timed_out(sequence, patience);
      if (!sleep(patience, [&] { return met(sequence); })) return false;
    }
    if (line.signature != current_.what || line.count != current_.count || (current_.has_scale() && line.scale() != current_.scale)) return mismatch(r, sequence);
  }
  return true;
}

/// Sleeps until something changes; looks after what a spinning rank does not: deaths, cancels, the parent's end.
template <class Ready> bool ShmCommunicator::sleep(Patience& patience, Ready ready) {
  try {
    patience.check();
  } catch (const std::exception& error) {
    segment_->fail({Reason::kAborted, fmt::format("the call on rank {} was interrupted: {}", name(rank_), error.what()), {}});
    throw;
  }
  watch_members();
  if (parent_ && parent_->has_failed()) {
    Failure why = parent_->failure();
    segment_->fail({why.reason, fmt::format("the group that this one was split from has failed: {}", why.text), {}});
  }
  if (segment_->has_failed()) return false;
  const auto again = part_.waiting ? part_.waiting() : Clock::time_point::max();
  segment_->sleep(rank_, std::min({patience.deadline(), again, Clock::now() + kSlice}), ready);
  return !segment_->has_failed();
}

void ShmCommunicator::watch_members() {
  const auto watch = [this](ShmSegment& segment, int rank, std::size_t index) {
    const int pid = segment.lines(rank).pid.load(std::memory_order_acquire);
    if (watched_[index] || pid == 0) return;
    watched_[index] = true;
    if (pid == ::getpid()) return;
    if (!watch_) {
      watch_ = std::make_unique<Watch>([this](int who) {
        const bool own = who < ranks_;
        ShmSegment& segment = own ? *segment_ : *parent_;
        const int rank = own ? who : who - ranks_;
        const int pid = segment.lines(rank).pid.load(std::memory_order_acquire);
        if (pid == -1) return;  // it had left
        const int named = own ? name(rank) : rank;
        segment.fail({Reason::kDied, fmt::format("rank {} (process {}) died", named, pid), {named}});
      });
    }
    watch_->add(int(index), pid, segment.lines(rank).started.load(std::memory_order_relaxed));
  };
  for (int r = 0; r < ranks_; ++r) watch(*segment_, r, std::size_t(r));
  if (parent_)
    for (int r = 0; r < parent_->ranks(); ++r) watch(*parent_, r, std::size_t(ranks_ + r));
}

bool ShmCommunicator::timed_out(std::uint64_t sequence, Patience& patience) {
  Failure failure{Reason::kTimeout, "", part_.missing ? part_.missing() : std::vector<int>()};
  const bool asked = !failure.missing_ranks.empty();  // who waits for others is not to blame
  for (int r = 0; r < ranks_ && !asked; ++r)
    if (segment_->flag(r, sequence).sequence.load(std::memory_order_acquire) != sequence) failure.missing_ranks.push_back(name(r));
  failure.text = fmt::format("rank {} waited {} ms for rank{} {} in {}", name(rank_), std::chrono::duration_cast<std::chrono::milliseconds>(patience.timeout()).count(),
                             failure.missing_ranks.size() == 1 ? "" : "s", fmt::join(failure.missing_ranks, ", "), describe(current_));
  segment_->fail(failure);
  return false;
}

bool ShmCommunicator::mismatch(int peer, std::uint64_t sequence) {
  const FlagLine& line = segment_->flag(peer, sequence);
  Signature theirs{line.signature, line.count};
  if (theirs.has_scale()) theirs.scale = line.scale();
  segment_->fail({Reason::kMismatch, describe_mismatch(name(rank_), current_, name(peer), theirs), {}});
  return false;
}

bool ShmCommunicator::run(const detail::Operation& operation, const Signature& as, Patience& patience) {
  if (segment_->has_failed()) return false;
  current_ = as;
  type_ = kernels::DType(operation.type);
  element_ = kernels::size_of(type_);
  reduce_ = {kernels::ReduceOp(operation.op.kind()), operation.op.scale(), ranks_, false};
  switch (operation.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce: return all_reduce(operation, patience);
    case Kind::kBroadcast: return broadcast(operation, patience);
    case Kind::kAllGather:
    case Kind::kAllGatherV:
    case Kind::kGather:
    case Kind::kGatherV:
    case Kind::kSplit: return gather(operation, patience);
    case Kind::kScatter:
    case Kind::kScatterV: return scatter(operation, patience);
    case Kind::kReduceScatter: return reduce_scatter(operation, patience);
    case Kind::kAllToAll:
    case Kind::kAllToAllV: return all_to_all(operation, patience);
    default: break;
  }
  publish(++sequence_);
  return meet(sequence_, patience);
}

bool ShmCommunicator::pump() {
  if (segment_->has_failed()) {
    messages_.clear();  // what was under way belongs to others, who have let go of it or do so now
    return false;
  }
  std::optional<Failure> mismatch;
  const bool moved = messages_.pump(mismatch);
  if (mismatch) segment_->fail(*mismatch);
  return moved;
}

bool ShmCommunicator::wait_messages(Clock::time_point deadline, Environment* environment) {
  Patience patience(deadline == Clock::time_point::max() ? kForever : deadline - Clock::now(), environment);
  const std::uint32_t bell = segment_->lines(rank_).bell.load(std::memory_order_acquire);
  const auto ready = [&] { return messages_.changed() || nudged_.load(std::memory_order_acquire); };
  Wait wait(*this, patience);
  wait.begin();
  while (!ready() && segment_->lines(rank_).bell.load(std::memory_order_acquire) == bell) {
    const Wait::Step step = wait.next();
    if (step == Wait::Step::kAgain) continue;
    if (step == Wait::Step::kFailed) return false;
    if (step == Wait::Step::kTimeout) break;
    if (!sleep(patience, ready)) return false;
    if (Clock::now() >= deadline) break;
  }
  nudged_.store(false, std::memory_order_relaxed);
  return !segment_->has_failed();
}

void ShmCommunicator::nudge() {
  nudged_.store(true, std::memory_order_seq_cst);
  segment_->ring(rank_);
}

std::optional<Failure> ShmCommunicator::failure() {
  if (!segment_->has_failed()) return std::nullopt;
  return segment_->failure();
}

std::unique_ptr<Communicator> ShmCommunicator::split(int color, int key, Patience& patience) {
  struct Entry { std::int32_t color, key, pid, fd; std::uint64_t secret; };
  static_assert(sizeof(Entry) % 8 == 0);
  std::vector<Entry> all(std::size_t(ranks_), Entry{});
  // First who is in which group; then the first of each group makes its memory, and the others open it.
  const auto exchange = [&](Entry own) {
    detail::Operation operation{.kind = Kind::kSplit, .type = detail::DType::kU8, .in = &own, .in_count = sizeof own, .out = all.data(), .out_count = all.size() * sizeof own};
    return run(operation, patience);
  };
  if (!exchange({color, key, 0, 0, 0})) return nullptr;
  std::vector<int> members;
  for (int r = 0; r < ranks_; ++r)
    if (all[std::size_t(r)].color == color) members.push_back(r);
  std::ranges::stable_sort(members, {}, [&](int r) { return all[std::size_t(r)].key; });
  Entry own{color, key, ::getpid(), -1, 0};
  std::shared_ptr<ShmSegment> segment;
  if (color >= 0 && members.front() == rank_) {
    own.secret = segment_->key() * 0x9e3779b97f4a7c15u + sequence_ * 977u + std::uint64_t(color);
    auto made = ShmSegment::create({.ranks = int(members.size()), .epoch = segment_->epoch(), .key = own.secret});
    if (!made.ok()) {
      segment_->fail({Reason::kBackend, made.error().message(), {}});
      return nullptr;
    }
    segment = *std::move(made);
    own.fd = segment->fd();
  }
  if (!exchange(own)) return nullptr;
  if (color >= 0 && !segment) {
    const Entry& first = all[std::size_t(members.front())];
    auto opened = ShmSegment::attach_from(first.pid, first.fd, first.secret);
    if (opened.ok()) segment = *std::move(opened);
    else segment_->fail(failure_of_attaching(opened.error_ptr(), name(members.front())));
  }
  std::unique_ptr<Communicator> child;
  if (segment) {
    const auto place = std::ranges::find(members, rank_) - members.begin();
    child = std::make_unique<ShmCommunicator>(segment, int(place), segment_);
  }
  // Nobody goes on before all have opened what the first holds open.
  publish(++sequence_);
  if (!meet(sequence_, patience)) return nullptr;
  return child;
}

}  // namespace troupe::collective
