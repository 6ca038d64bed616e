// Waiting, signatures and the order of phases; then the operations: reductions, and what only moves bytes.
#include "collective/shm/communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/log.h"
#include "kernels/cpu/copy/copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe::collective {

using detail::Kind;

namespace {

// a sleep costs 20 to 45 us: what is nearer than that is awaited
constexpr auto kSleepAfter = std::chrono::microseconds(100);
constexpr int kEagerPolls = 200;                              // before the first pause, which may take 50 ns and more
constexpr int kPollsPerClock = 64;
// Ranks that share a core: a sleep costs more than the yields before it. Few, for a yield gives up a whole slice of
// virtual time: beside three ranks that yielded 2,000 times a wait, others waited up to 7 s for a CPU (Linux 6.18).
constexpr int kYieldsMin = 50;
// on a busy machine a yield takes others' whole slices, and deaths are seen asleep only
constexpr auto kYieldsLast = std::chrono::milliseconds(2);
// sleeping ranks look for cancels and for their parent's end
constexpr auto kSlice = std::chrono::milliseconds(100);

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
      if (now - start_ > kSleepAfter && (group_.cores_fit() || yields_ > kYieldsMin || now - start_ > kYieldsLast))
        return now >= patience_.deadline() ? Step::kTimeout : Step::kSleep;
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

ShmCommunicator::ShmCommunicator(std::shared_ptr<ShmSegment> segment, int rank, Segments above)
    : segment_(std::move(segment)),
      above_(std::move(above)),
      rank_(rank),
      ranks_(segment_->ranks()),
      inputs_(std::size_t(ranks_)),
      messages_(*segment_, rank) {
  for (int r = 0; r < ranks_; ++r) watched_.push_back({segment_.get(), r});
  for (const auto& group : above_)
    for (int r = 0; r < group->ranks(); ++r) watched_.push_back({group.get(), r});
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

/// Waits until all ranks have published `sequence`, and checks that they mean the same (SHC-2).
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
      if (step == Wait::Step::kTimeout) {
        if (met(sequence)) continue;  // the last of them came at this moment
        return timed_out(sequence, patience);
      }
      meeting_ = sequence;  // left so where the call is interrupted: the group has failed then
      const bool whole = sleep(patience, [&] { return met(sequence); });
      meeting_ = 0;
      if (!whole) return false;
    }
    if (line.signature != current_.what || line.count != current_.count ||
        (current_.has_scale() && line.scale() != current_.scale))
      return mismatch(r, sequence);
  }
  return true;
}

/// Sleeps until something changes; looks after what a spinning rank does not: deaths, cancels, the end of groups above.
template <class Ready> bool ShmCommunicator::sleep(Patience& patience, Ready ready) {
  try {
    patience.check();
  } catch (const std::exception& error) {
    segment_->fail(
        {Reason::kAborted, fmt::format("the call on rank {} was interrupted: {}", name(rank_), error.what()), {}});
    throw;
  }
  watch_members();
  for (const auto& group : above_)  // SHC-4
    if (group->has_failed()) {
      const Failure why = group->failure();
      segment_->fail({why.reason, fmt::format("the group that this one was split from has failed: {}", why.text), {}});
      break;
    }
  if (segment_->has_failed()) return false;
  const auto again = part_.waiting ? part_.waiting() : Clock::time_point::max();
  segment_->sleep(rank_, std::min({patience.deadline(), again, Clock::now() + kSlice}), ready);
  return !segment_->has_failed();
}

void ShmCommunicator::watch_members() {
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    Watched& one = watched_[i];
    if (one.done) continue;
    const int pid = one.segment->lines(one.rank).pid.load(std::memory_order_acquire);
    if (pid == 0) continue;
    if (pid == ::getpid() || pid == -1) {  // itself; one that has left
      one.done = true;
      continue;
    }
    if (!watch_) {
      watch_ = std::make_unique<Watch>([this](int who) {
        const Watched& dead = watched_[std::size_t(who)];
        const int pid = dead.segment->lines(dead.rank).pid.load(std::memory_order_acquire);
        if (pid == -1) return;  // it had left
        const int named = dead.segment == segment_.get() ? name(dead.rank) : dead.rank;
        dead.segment->fail({Reason::kDied, fmt::format("rank {} (process {}) died", named, pid), {named}});
      });
    }
    one.done = watch_->add(int(i), pid, one.segment->lines(one.rank).started.load(std::memory_order_relaxed));
    if (!one.done && !std::exchange(told_unwatched_, true))  // WA-3
      write_log(LogLevel::kWarn,
                "rank {} of a group in shared memory cannot watch process {}, for want of a descriptor or a thread, "
                "and tries again as long as it waits: until then it does not hear of deaths",
                rank_, pid);
  }
}

std::vector<int> ShmCommunicator::not_come_to(std::uint64_t sequence) const {
  std::vector<int> names;
  for (int r = 0; r < ranks_; ++r)
    if (segment_->flag(r, sequence).sequence.load(std::memory_order_acquire) != sequence) names.push_back(name(r));
  return names;
}

bool ShmCommunicator::timed_out(std::uint64_t sequence, Patience& patience) {
  Failure failure{Reason::kTimeout, "", not_come_to(sequence)};
  if (part_.to_blame) failure.missing_ranks = part_.to_blame(failure.missing_ranks);
  failure.text = fmt::format("rank {} waited {} ms for rank{} {} in {}", name(rank_),
                             std::chrono::duration_cast<std::chrono::milliseconds>(patience.timeout()).count(),
                             failure.missing_ranks.size() == 1 ? "" : "s", fmt::join(failure.missing_ranks, ", "),
                             describe(current_));
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
    detail::Operation operation{.kind = Kind::kSplit,
                                .type = detail::DType::kU8,
                                .in = &own,
                                .in_count = sizeof own,
                                .out = all.data(),
                                .out_count = all.size() * sizeof own};
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
    Segments above{segment_};
    above.insert(above.end(), above_.begin(), above_.end());
    child = std::make_unique<ShmCommunicator>(segment, int(place), std::move(above));
  }
  // Nobody goes on before all have opened what the first holds open.
  publish(++sequence_);
  if (!meet(sequence_, patience)) return nullptr;
  return child;
}

// ---------------------------------------------------------------------------------------------------------- reductions

// all_reduce, reduce and reduce_scatter in shared memory.
//
// Memory traffic of an all-reduce of N bytes by n ranks, when the chunks stay in the caches: every rank reads its N
// once and writes its N once, around the cache. That is also the least there is: T_min = 2 n N / bandwidth of streaming
// copies.

namespace {
constexpr std::size_t kOneShotMax = 1u << 20;     // over the ranks: with more of them, every rank would read too much
// two ranks share from there on: half the lines for one meeting more (decision 012)
constexpr std::size_t kOneShotOfTwo = 2u << 10;
// of a one-shot: the first pieces are reduced while the last are written
constexpr std::size_t kPiece = 64u << 10;
constexpr std::size_t kStreamMin = 2u << 20;      // outputs from here on are written around the cache
constexpr std::size_t kLine = 64;
// of an all-reduce in shares: a few chunks overlap, each with the cost of two meetings
constexpr std::size_t kChunkMin = 64u << 10;

std::size_t chunk_bytes(std::size_t bytes, std::size_t slot) {
  return std::min(slot, std::max(kChunkMin, (bytes / 4 + kLine - 1) / kLine * kLine));
}
}  // namespace

void ShmCommunicator::copy(void* to, const void* from, std::size_t bytes, bool stream) {
  if (bytes != 0 && to != from) kernels::copy(to, from, bytes, {.stream = stream});
}

void ShmCommunicator::reduce_into(void* out, std::size_t count, bool stream, void* also) {
  kernels::ReduceOptions options = reduce_;
  options.stream = stream;
  options.also = also;
  kernels::reduce(out, inputs_, count, type_, options);
}

bool ShmCommunicator::all_reduce(const detail::Operation& operation, Patience& patience) {
  const std::size_t bytes = operation.in_count * element_;
  if (bytes <= (current_.scaled() ? kScaledPayload : kPayload)) return all_reduce_tiny(operation, patience);
  const std::size_t one_shot =
      std::min(ranks_ == 2 ? kOneShotOfTwo : kOneShotMax / std::size_t(ranks_), segment_->slot_bytes());
  return bytes <= one_shot ? all_reduce_one_shot(operation, patience) : all_reduce_shares(operation, patience);
}

bool ShmCommunicator::all_reduce_tiny(const detail::Operation& operation, Patience& patience) {
  const std::uint64_t sequence = ++sequence_;
  FlagLine& own = segment_->flag(rank_, sequence);
  if (operation.in_count != 0) std::memcpy(own.payload, operation.in, operation.in_count * element_);
  publish(sequence);
  if (!meet(sequence, patience)) return false;
  if (!wants_result(operation)) return true;
  for (int r = 0; r < ranks_; ++r) inputs_[std::size_t(r)] = segment_->flag(r, sequence).payload;
  reduce_into(operation.out, operation.in_count, false);
  return true;
}

bool ShmCommunicator::all_reduce_one_shot(const detail::Operation& operation, Patience& patience) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  auto* out = static_cast<std::byte*>(operation.out);
  const std::size_t bytes = operation.in_count * element_;
  const std::size_t pieces = (bytes + kPiece - 1) / kPiece;
  const auto length = [&](std::size_t i) { return std::min(kPiece, bytes - i * kPiece); };
  return rounds(
      pieces, patience, [&](std::size_t i, std::byte* buffer) { copy(buffer, in + i * kPiece, length(i)); },
      [&](std::size_t i, std::uint64_t sequence) {
        if (!wants_result(operation)) return;
        for (int r = 0; r < ranks_; ++r)
          inputs_[std::size_t(r)] = r == rank_ ? in + i * kPiece : segment_->buffer(r, sequence);
        reduce_into(out + i * kPiece, length(i) / element_, false);
      });
}

// Chunk c takes two sequence numbers: a (inputs are there) and b (shares are reduced). A rank reduces its share of
// chunk c, then does two things side by side (kernels::copy_both): it fetches the others' shares of chunk c - 1, whose
// lines come from other cores' caches, and writes its input of chunk c + 1, which comes from memory. What it waits for
// was published a chunk's time before.
//
// Of two ranks, each leaves its share in the lines of the other's buffer that it has just read (SG-1): the other
// fetches it from there and writes its next input over it, so that a line goes from core to core twice a chunk and not
// four times.
bool ShmCommunicator::all_reduce_shares(const detail::Operation& operation, Patience& patience) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  auto* out = static_cast<std::byte*>(operation.out);
  const std::size_t bytes = operation.in_count * element_, chunk = chunk_bytes(bytes, segment_->slot_bytes()),
                    chunks = (bytes + chunk - 1) / chunk;
  const bool stream = bytes >= kStreamMin, wanted = wants_result(operation);
  const std::uint64_t first = sequence_ + 1;
  sequence_ += 2 * chunks;
  const auto length = [&](std::size_t c) { return c < chunks ? std::min(chunk, bytes - c * chunk) : 0; };
  const auto share = [&](std::size_t c, int rank) {  // whole cache lines, so that no two ranks write one
    const std::size_t size = (length(c) / std::size_t(ranks_) + kLine - 1) / kLine * kLine;
    const std::size_t begin = std::min(std::size_t(rank) * size, length(c));
    return Share{begin, rank + 1 == ranks_ ? length(c) - begin : std::min(size, length(c) - begin)};
  };
  const auto reduced = [&](std::size_t c, int rank) {
    return ranks_ == 2 ? segment_->buffer(1 - rank, first + 2 * c) + share(c, rank).begin
                       : segment_->buffer(rank, first + 2 * c + 1);
  };
  // The others' shares of chunk `done` to the output, this rank's part in them of chunk `next` to its buffer; either
  // may not be. The second may lie upon the first, or before it where the last chunk is shorter.
  const std::size_t none = chunks;
  const auto fetch_and_write = [&](std::size_t done, std::size_t next) {
    for (int r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;  // nobody but this rank needs its own share
      kernels::CopyJob fetch, write;
      if (const auto [begin, size] = share(done, r); wanted && size != 0)
        fetch = {out + done * chunk + begin, reduced(done, r), size};
      if (const auto [begin, size] = share(next, r); size != 0)
        write = {segment_->buffer(rank_, first + 2 * next) + begin, in + next * chunk + begin, size};
      kernels::copy_both(fetch, write, {.stream = stream});
    }
  };
  fetch_and_write(none, 0);
  publish(first);
  for (std::size_t c = 0; c < chunks; ++c) {
    const std::uint64_t a = first + 2 * c, b = a + 1;
    const bool last = c + 1 == chunks;
    if (!meet(a, patience)) return false;
    if (c > 0 && last) {  // SG-2: what comes after this operation waits for b alone
      if (!meet(b - 2, patience)) return false;
      fetch_and_write(c - 1, none);
    }
    const auto [begin, size] = share(c, rank_);
    for (int r = 0; r < ranks_; ++r)
      inputs_[std::size_t(r)] = (r == rank_ ? in + c * chunk : segment_->buffer(r, a)) + begin;
    reduce_into(reduced(c, rank_), size / element_, stream && wanted, wanted ? out + c * chunk + begin : nullptr);
    publish(b);
    if (last) break;
    if (c > 0 && !meet(b - 2, patience)) return false;
    fetch_and_write(c > 0 ? c - 1 : none, c + 1);
    publish(a + 2);
  }
  if (!meet(first + 2 * chunks - 1, patience)) return false;
  fetch_and_write(chunks - 1, none);
  return true;
}

// Part q of a rank's input goes to rank q: each round publishes a piece of every part but the own.
bool ShmCommunicator::reduce_scatter(const detail::Operation& operation, Patience& patience) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  auto* out = static_cast<std::byte*>(operation.out);
  const std::size_t bytes = operation.out_count * element_;
  const std::size_t piece = std::max(kLine, segment_->slot_bytes() / std::size_t(ranks_) / kLine * kLine);
  const std::size_t pieces = std::max<std::size_t>(1, (bytes + piece - 1) / piece);
  const auto length = [&](std::size_t i) { return std::min(piece, bytes - i * piece); };
  return rounds(
      pieces, patience,
      [&](std::size_t i, std::byte* buffer) {
        for (int r = 0; r < ranks_; ++r)
          if (r != rank_) copy(buffer + std::size_t(r) * piece, in + std::size_t(r) * bytes + i * piece, length(i));
      },
      [&](std::size_t i, std::uint64_t sequence) {
        for (int r = 0; r < ranks_; ++r)
          inputs_[std::size_t(r)] = r == rank_ ? in + std::size_t(rank_) * bytes + i * piece
                                               : segment_->buffer(r, sequence) + std::size_t(rank_) * piece;
        reduce_into(out + i * piece, length(i) / element_, false);
      });
}

// --------------------------------------------------------------------------------------------------------------- moves

// broadcast, gather, scatter, all_to_all in shared memory: operations that only move bytes.

namespace {
std::size_t rounds_for(std::size_t bytes, std::size_t piece) {
  return std::max<std::size_t>(1, (bytes + piece - 1) / piece);
}
/// The bytes of piece i of something.
std::size_t length(std::size_t bytes, std::size_t piece, std::size_t i) {
  return i * piece >= bytes ? 0 : std::min(piece, bytes - i * piece);
}
}  // namespace

bool ShmCommunicator::broadcast(const detail::Operation& operation, Patience& patience) {
  auto* data = static_cast<std::byte*>(operation.out);
  const std::size_t bytes = operation.in_count * element_, piece = segment_->slot_bytes();
  const bool root = operation.peer == rank_;
  return rounds(
      rounds_for(bytes, piece), patience,
      [&](std::size_t i, std::byte* buffer) {
        if (root) copy(buffer, data + i * piece, length(bytes, piece, i));
      },
      [&](std::size_t i, std::uint64_t sequence) {
        if (!root)
          copy(data + i * piece, segment_->buffer(operation.peer, sequence), length(bytes, piece, i),
               bytes >= kStreamMin);
      });
}

// all_gather and gather, with equal parts or not.
bool ShmCommunicator::gather(const detail::Operation& operation, Patience& patience) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  auto* out = static_cast<std::byte*>(operation.out);
  const bool all = operation.kind == Kind::kAllGather || operation.kind == Kind::kAllGatherV ||
                   operation.kind == Kind::kSplit,
             wanted = all || operation.peer == rank_;
  const bool equal = operation.counts.empty();
  const auto bytes_of = [&](int r) {
    return (equal ? operation.in_count : operation.counts[std::size_t(r)]) * element_;
  };
  std::size_t most = 0, total = 0;
  for (int r = 0; r < ranks_; ++r) most = std::max(most, bytes_of(r)), total += bytes_of(r);
  const std::size_t piece = segment_->slot_bytes(), own = operation.in_count * element_;
  return rounds(
      rounds_for(most, piece), patience,
      [&](std::size_t i, std::byte* buffer) { copy(buffer, in + i * piece, length(own, piece, i)); },
      [&](std::size_t i, std::uint64_t sequence) {
        std::size_t offset = 0;
        for (int r = 0; r < ranks_ && wanted; offset += bytes_of(r), ++r) {
          const std::size_t n = length(bytes_of(r), piece, i);
          if (n != 0)
            copy(out + offset + i * piece, r == rank_ ? in + i * piece : segment_->buffer(r, sequence), n,
                 total >= kStreamMin);
        }
      });
}

bool ShmCommunicator::scatter(const detail::Operation& operation, Patience& patience) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  auto* out = static_cast<std::byte*>(operation.out);
  const bool root = operation.peer == rank_, equal = operation.counts.empty();
  const auto bytes_of = [&](int r) {
    return (equal ? operation.out_count : operation.counts[std::size_t(r)]) * element_;
  };
  std::size_t most = 0, offset_of_own = 0;
  for (int r = 0; r < ranks_; ++r) {
    most = std::max(most, bytes_of(r));
    if (r < rank_) offset_of_own += bytes_of(r);
  }
  const std::size_t piece = std::max(kLine, segment_->slot_bytes() / std::size_t(ranks_) / kLine * kLine);
  return rounds(
      rounds_for(most, piece), patience,
      [&](std::size_t i, std::byte* buffer) {
        std::size_t offset = 0;
        for (int r = 0; r < ranks_ && root; offset += bytes_of(r), ++r)
          if (r != rank_) copy(buffer + std::size_t(r) * piece, in + offset + i * piece, length(bytes_of(r), piece, i));
      },
      [&](std::size_t i, std::uint64_t sequence) {
        const std::byte* from = root ? in + offset_of_own + i * piece
                                     : segment_->buffer(operation.peer, sequence) + std::size_t(rank_) * piece;
        if (const std::size_t n = length(bytes_of(rank_), piece, i); n != 0) copy(out + i * piece, from, n);
      });
}

// The numbers of elements that go from each rank to each; with all_to_all_v they are exchanged first, and compared.
bool ShmCommunicator::all_to_all(const detail::Operation& operation, Patience& patience) {
  const auto n = std::size_t(ranks_);
  if (operation.kind == Kind::kAllToAll)
    return all_to_all_parts(operation, std::vector<std::size_t>(n * n, operation.in_count / n), patience);
  std::vector<std::size_t> matrix(n * n), wanted(n * n);
  const auto publish_counts = [&](std::size_t, std::byte* buffer) {
    std::memcpy(buffer, operation.counts.data(), n * sizeof(std::size_t));
    std::memcpy(buffer + n * sizeof(std::size_t), operation.recv_counts.data(), n * sizeof(std::size_t));
  };
  const auto read_counts = [&](std::size_t, std::uint64_t sequence) {
    for (int r = 0; r < ranks_; ++r) {
      std::memcpy(&matrix[std::size_t(r) * n], segment_->buffer(r, sequence), n * sizeof(std::size_t));
      std::memcpy(&wanted[std::size_t(r) * n], segment_->buffer(r, sequence) + n * sizeof(std::size_t),
                  n * sizeof(std::size_t));
    }
  };
  if (!rounds(1, patience, publish_counts, read_counts)) return false;
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to)
      if (matrix[from * n + to] != wanted[to * n + from]) {
        segment_->fail({Reason::kMismatch,
                        fmt::format("all_to_all_v: rank {} sends {} elements to rank {}, which wants {}", from,
                                    matrix[from * n + to], to, wanted[to * n + from]),
                        {}});
        return false;
      }
  return all_to_all_parts(operation, matrix, patience);
}

bool ShmCommunicator::all_to_all_parts(const detail::Operation& operation, const std::vector<std::size_t>& matrix,
                                       Patience& patience) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  auto* out = static_cast<std::byte*>(operation.out);
  const auto n = std::size_t(ranks_), me = std::size_t(rank_);
  const auto bytes = [&](std::size_t from, std::size_t to) { return matrix[from * n + to] * element_; };
  const std::size_t most = *std::ranges::max_element(matrix) * element_;
  const std::size_t piece = std::max(kLine, segment_->slot_bytes() / n / kLine * kLine);
  std::size_t own_in = 0;
  for (std::size_t r = 0; r < me; ++r) own_in += bytes(me, r);
  return rounds(
      rounds_for(most, piece), patience,
      [&](std::size_t i, std::byte* buffer) {
        std::size_t offset = 0;
        for (std::size_t r = 0; r < n; offset += bytes(me, r), ++r)
          if (r != me) copy(buffer + r * piece, in + offset + i * piece, length(bytes(me, r), piece, i));
      },
      [&](std::size_t i, std::uint64_t sequence) {
        std::size_t offset = 0;
        for (std::size_t r = 0; r < n; offset += bytes(r, me), ++r) {
          const std::size_t size = length(bytes(r, me), piece, i);
          if (size != 0)
            copy(out + offset + i * piece,
                 r == me ? in + own_in + i * piece : segment_->buffer(int(r), sequence) + me * piece, size);
        }
      });
}

// The parcels of a giver are one stream, which goes through its buffers.
bool ShmCommunicator::deliver(const std::vector<std::vector<ShmParcel>>& parcels, const Signature& as,
                              Patience& patience) {
  if (segment_->has_failed()) return false;
  current_ = as;
  const std::size_t piece = segment_->slot_bytes();
  std::size_t longest = 0;
  for (const auto& of_giver : parcels) {
    std::size_t bytes = 0;
    for (const ShmParcel& parcel : of_giver) bytes += parcel.bytes;
    longest = std::max(longest, bytes);
  }
  // What of the giver's parcels lies in piece i: move(parcel, place in it, place in the piece, bytes).
  const auto cut = [&](int giver, std::size_t i, const auto& move) {
    const std::size_t begin = i * piece, end = begin + piece;
    std::size_t at = 0;
    for (const ShmParcel& parcel : parcels[std::size_t(giver)]) {
      const std::size_t from = std::max(at, begin), to = std::min(at + parcel.bytes, end);
      if (from < to) move(parcel, from - at, from - begin, to - from);
      at += parcel.bytes;
    }
  };
  return rounds(
      rounds_for(longest, piece), patience,
      [&](std::size_t i, std::byte* buffer) {
        cut(rank_, i, [&](const ShmParcel& parcel, std::size_t in_parcel, std::size_t in_piece, std::size_t n) {
          copy(buffer + in_piece, parcel.from + in_parcel, n);
        });
      },
      [&](std::size_t i, std::uint64_t sequence) {
        for (int r = 0; r < ranks_; ++r)
          if (r != rank_)
            cut(r, i, [&](const ShmParcel& parcel, std::size_t in_parcel, std::size_t in_piece, std::size_t n) {
              if (parcel.to) copy(parcel.to + in_parcel, segment_->buffer(r, sequence) + in_piece, n);
            });
      });
}

}  // namespace troupe::collective
