// Carrying out schedules, and waiting. Then the operations, as schedules.
#include "collective/tcp/communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/tcp/mesh.h"
#include "kernels/cpu/copy/copy.h"

namespace troupe::collective {
namespace {

constexpr auto kSpin = std::chrono::microseconds(200);
constexpr auto kTellAfter = std::chrono::milliseconds(50);
constexpr auto kTcpSlice = std::chrono::milliseconds(100);  // sleeping ranks look for cancels

int cores_here() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

TcpCommunicator::TcpCommunicator(std::shared_ptr<TcpLinks> links, TcpOptions options)
    : links_(std::move(links)),
      options_(std::move(options)),
      streams_(*links_),
      inputs_(std::size_t(links_->ranks())),
      posted_sends_(std::size_t(links_->ranks())),
      posted_receives_(std::size_t(links_->ranks())) {
  for (int r = 0; r < links_->ranks(); ++r) all_.push_back(r);
  // Ranks of one machine may be pinned to different cores: those of the machine count, not those of this thread.
  const int here = options_.ranks_here > 0 ? options_.ranks_here : links_->ranks();
  cores_fit_ = here <= std::max(cores_here(), int(::sysconf(_SC_NPROCESSORS_ONLN)));
}

TcpCommunicator::~TcpCommunicator() { links_->leave(); }

std::byte* TcpCommunicator::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

bool TcpCommunicator::run(const detail::Operation& operation, Patience& patience) {
  return through(run_among(all_, {++sequence_, signature_of(operation)}, operation, patience));
}

bool TcpCommunicator::through(bool well) {
  if (well) links_->is_through();
  return well;
}

bool TcpCommunicator::run_among(const std::vector<int>& members, const Progress& as, const detail::Operation& operation,
                                Patience& patience) {
  type_ = kernels::DType(operation.type);
  reduce_ = {kernels::ReduceOp(operation.op.kind()), operation.op.scale(), int(members.size()), false};
  return step(members, as, [&] { return dispatch(operation, patience); });
}

bool TcpCommunicator::run_moves(const Progress& as, const Schedule& schedule, const Memories& memories,
                                Patience& patience) {
  return step(all_, as, [&] { return execute(schedule, memories, patience); });
}

template <class Body> bool TcpCommunicator::step(const std::vector<int>& members, const Progress& as, Body body) {
  links_->look();
  if (links_->has_failed()) return false;
  map_ = members;
  at_ = int(std::ranges::find(map_, links_->rank()) - map_.begin());
  current_ = as;
  links_->working_on(current_);
  streams_.begin(current_);
  idle_ = 0;
  const bool ok = body();
  streams_.end();
  return ok && !links_->has_failed();
}

// ----------------------------------------------------------------------------------------------------------- schedules

bool TcpCommunicator::overlaps(const std::vector<Window>& windows, const std::byte* begin, std::size_t bytes) const {
  if (bytes == 0) return false;
  return std::ranges::any_of(windows, [&](const Window& w) { return w.begin < begin + bytes && begin < w.end; });
}

/// Forgets what is through: frames of a pair go in order.
void TcpCommunicator::prune() {
  std::erase_if(reading_, [&](const Window& w) { return streams_.sent(w.peer) >= w.number; });
  std::erase_if(writing_, [&](const Window& w) { return streams_.received(w.peer) >= w.number; });
}

/// False: it must wait for something under way (TCM-2).
bool TcpCommunicator::issue(const Step& step, const Memories& m) {
  const auto at = [&](const Range& range) -> const std::byte* {
    return (range.memory == Memory::kScratch ? m.scratch
            : range.memory == Memory::kInput ? m.input
                                             : m.data) +
           range.begin * m.element;
  };
  if (step.fence && !writing_.empty()) return false;
  const std::byte* const range = at(step.range);
  const std::size_t bytes = step.range.size() * m.element;
  switch (step.kind) {
    case Step::Kind::kSend: {
      if (overlaps(writing_, range, bytes)) return false;
      const int to = map_[std::size_t(step.peer)];
      streams_.send(to, range, bytes);
      reading_.push_back({range, range + bytes, to, ++posted_sends_[std::size_t(to)]});
      return true;
    }
    case Step::Kind::kReceive: {
      if (overlaps(reading_, range, bytes) || overlaps(writing_, range, bytes)) return false;
      const int from = map_[std::size_t(step.peer)];
      streams_.receive(from, const_cast<std::byte*>(range), bytes);
      writing_.push_back({range, range + bytes, from, ++posted_receives_[std::size_t(from)]});
      return true;
    }
    case Step::Kind::kReduce:
    case Step::Kind::kCopy:
    case Step::Kind::kReduceAll:
      if (overlaps(reading_, range, bytes) || overlaps(writing_, range, bytes) ||
          overlaps(writing_, at(step.from), step.from.size() * m.element))
        return false;
      if (step.kind == Step::Kind::kCopy) {
        if (range != at(step.from) && bytes != 0)
          kernels::copy(const_cast<std::byte*>(range), at(step.from), bytes, {.stream = false});
      } else {
        reduce_step(step, m);
      }
      return true;
  }
  return true;
}

void TcpCommunicator::reduce_step(const Step& step, const Memories& m) {
  if (step.range.size() == 0) return;
  auto* const out = (step.range.memory == Memory::kScratch ? m.scratch : m.data) + step.range.begin * m.element;
  const std::byte* const from =
      (step.from.memory == Memory::kScratch ? m.scratch : m.data) + step.from.begin * m.element;
  if (step.kind == Step::Kind::kReduceAll) {
    for (std::size_t r = 0; r < map_.size(); ++r)
      inputs_[r] = int(r) == at_ ? m.input + step.range.begin * m.element : from + r * step.stride * m.element;
    return kernels::reduce(out, std::span(inputs_).first(map_.size()), step.range.size(), type_, reduce_);
  }
  const void* two[2] = {out, from};
  if (step.swapped) std::swap(two[0], two[1]);
  kernels::reduce(out, two, step.range.size(), type_, reduce_);
}

bool TcpCommunicator::execute(const Schedule& schedule, const Memories& memories, Patience& patience) {
  reading_.clear();
  writing_.clear();
  for (int r = 0; r < links_->ranks(); ++r) {
    posted_sends_[std::size_t(r)] = streams_.sent(r);
    posted_receives_[std::size_t(r)] = streams_.received(r);
  }
  for (std::size_t next = 0;;) {
    while (next < schedule.steps.size() && issue(schedule.steps[next], memories)) ++next;
    if (next == schedule.steps.size() && reading_.empty() && writing_.empty()) return true;
    const auto moved = streams_.pump();
    if (moved == TcpStreams::Moved::kFailed) return false;
    if (moved == TcpStreams::Moved::kSomething) {
      idle_ = 0;
      prune();
    } else if (!step_wait(patience)) {
      return false;
    }
  }
}

// ------------------------------------------------------------------------------------------------------------- waiting

/// Nothing moved: poll again, or sleep. False: the group has failed.
bool TcpCommunicator::step_wait(Patience& patience) {
  constexpr int kPollsPerClock = 8;
  if (links_->has_failed()) return false;
  if (idle_++ == 0) idle_since_ = Clock::now();
  if (cores_fit_ && idle_ % kPollsPerClock != 0) return true;
  const auto now = Clock::now();
  if (cores_fit_ && now - idle_since_ < kSpin) return true;
  if (now >= patience.deadline()) return timed_out(patience);
  try {
    patience.check();
  } catch (const std::exception& error) {
    interrupted(error);
    throw;
  }
  const auto tell_at =
      idle_since_ +
      std::min<Clock::duration>(kTellAfter, std::chrono::duration_cast<Clock::duration>(patience.timeout()) / 4);
  if (now >= tell_at) links_->tell_progress(awaited());
  streams_.sleep(std::min({patience.deadline(), now + kTcpSlice, now < tell_at ? tell_at : Clock::time_point::max()}));
  return !links_->has_failed();
}

void TcpCommunicator::interrupted(const std::exception& error) {
  links_->fail({Reason::kAborted, fmt::format("the call on rank {} was interrupted: {}", rank(), error.what()), {}});
}

/// The ranks whose data is missing here, or that do not take what is sent to them.
std::vector<int> TcpCommunicator::awaited() const {
  std::vector<int> peers;
  for (const Window& w : writing_)
    if (streams_.received(w.peer) < w.number) peers.push_back(w.peer);
  if (peers.empty())
    for (const Window& w : reading_)
      if (streams_.sent(w.peer) < w.number) peers.push_back(w.peer);
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

bool TcpCommunicator::timed_out(Patience& patience) {
  links_->look();
  if (links_->has_failed()) return false;
  Failure failure{Reason::kTimeout, "", links_->to_blame(current_.sequence, awaited())};  // TCM-3
  failure.text = fmt::format("rank {} waited {} ms for rank{} {} in {}", rank(),
                             std::chrono::duration_cast<std::chrono::milliseconds>(patience.timeout()).count(),
                             failure.missing_ranks.size() == 1 ? "" : "s", fmt::join(failure.missing_ranks, ", "),
                             describe(current_.signature));
  links_->fail(failure);
  return false;
}

bool TcpCommunicator::pump() {
  // What was under way when the group failed belongs to others, who have let go of it or do so now.
  const auto moved = links_->has_failed() ? TcpStreams::Moved::kFailed : streams_.pump();
  if (moved == TcpStreams::Moved::kFailed) streams_.clear();
  return moved == TcpStreams::Moved::kSomething;
}

bool TcpCommunicator::wait_messages(Clock::time_point deadline, Environment* environment) {
  Patience patience(
      deadline == Clock::time_point::max() ? kForever : std::max<Duration>(Duration::zero(), deadline - Clock::now()),
      environment);
  links_->look();
  if (links_->has_failed()) return false;
  try {
    patience.check();
  } catch (const std::exception& error) {
    interrupted(error);
    throw;
  }
  streams_.sleep(std::min(deadline, Clock::now() + kTcpSlice));
  return !links_->has_failed();
}

// ---------------------------------------------------------------------------------------------------------- operations

// The operations of TcpCommunicator as schedules.

using detail::Kind;

namespace {

// Measured on two cores over loopback, 64 MiB, two ranks.
constexpr std::size_t kPieceBytes = 256u << 10;
constexpr std::size_t kScatteredMin = 512u << 10;  // broadcasts from here on are scattered first

Step send_step(int peer, std::size_t begin, std::size_t size) {
  return {.kind = Step::Kind::kSend, .peer = peer, .range = {Memory::kInput, begin, begin + size}};
}
Step receive_step(int peer, std::size_t begin, std::size_t size) {
  return {.kind = Step::Kind::kReceive, .peer = peer, .range = {Memory::kData, begin, begin + size}};
}
Step copy_step(std::size_t to, std::size_t from, std::size_t size) {
  return {
      .kind = Step::Kind::kCopy, .range = {Memory::kData, to, to + size}, .from = {Memory::kInput, from, from + size}};
}

/// Where data goes one way, a rank could be done before it has heard of a mismatch: all meet once more.
Schedule met(Schedule schedule, Position place) {
  const Schedule barrier = barrier_schedule(place);
  schedule.steps.insert(schedule.steps.end(), barrier.steps.begin(), barrier.steps.end());
  return schedule;
}

}  // namespace

bool TcpCommunicator::dispatch(const detail::Operation& operation, Patience& patience) {
  switch (operation.kind) {
    case Kind::kAllReduce: return all_reduce(operation, patience);
    case Kind::kReduce: return reduce(operation, patience);
    case Kind::kReduceScatter: return reduce_scatter(operation, patience);
    case Kind::kBroadcast: return broadcast(operation, patience);
    case Kind::kAllGather:
    case Kind::kAllGatherV:
    case Kind::kGather:
    case Kind::kGatherV:
    case Kind::kScatter:
    case Kind::kScatterV:
    case Kind::kAllToAll:
    case Kind::kSplit: return move_parts(operation, patience);
    case Kind::kAllToAllV: return all_to_all_v(operation, patience);
    default: break;
  }
  return execute(barrier_schedule(position()), {}, patience);
}

bool TcpCommunicator::all_reduce(const detail::Operation& operation, Patience& patience) {
  const std::size_t element = kernels::size_of(type_), count = operation.in_count, bytes = count * element;
  auto* const out = static_cast<std::byte*>(operation.out);
  const auto* in = static_cast<const std::byte*>(operation.in);
  const Algorithm algorithm = choose_all_reduce(position().ranks, bytes, options_.deterministic);
  if (algorithm == Algorithm::kOneShot || algorithm == Algorithm::kDirect) {
    const std::size_t piece =
        std::max<std::size_t>(1, (options_.piece_bytes ? options_.piece_bytes : kPieceBytes) / element);
    const Schedule schedule = algorithm == Algorithm::kOneShot ? one_shot_schedule(position(), count)
                                                               : direct_schedule(position(), count, {.piece = piece});
    return execute(schedule, {in, out, scratch(schedule.scratch * element), element}, patience);
  }
  // These combine two at a time, in place: what is done to each input comes before, what is done to the sum afterwards.
  const kernels::ReduceOptions whole = reduce_;
  const bool scaled = whole.op == kernels::ReduceOp::kPreMulSum, averaged = whole.op == kernels::ReduceOp::kAvg;
  const void* const one[1] = {in};
  if (scaled) kernels::reduce(out, one, count, type_, whole);
  else if (in != out && bytes != 0) kernels::copy(out, in, bytes, {.stream = false});
  if (scaled || averaged) reduce_.op = kernels::ReduceOp::kSum;
  const Schedule schedule = all_reduce_schedule(algorithm, position(), count);
  if (!execute(schedule, {out, out, scratch(schedule.scratch * element), element}, patience)) return false;
  const void* const sum[1] = {out};
  if (averaged) kernels::reduce(out, sum, count, type_, whole);
  return true;
}

bool TcpCommunicator::reduce(const detail::Operation& operation, Patience& patience) {
  const std::size_t element = kernels::size_of(type_), count = operation.in_count;
  const std::size_t piece =
      std::max<std::size_t>(1, (options_.piece_bytes ? options_.piece_bytes : kPieceBytes) / element);
  const auto root = int(std::ranges::find(map_, operation.peer) - map_.begin());
  const Schedule schedule = met(direct_schedule(position(), count, {.result = root, .piece = piece}), position());
  return execute(schedule,
                 {static_cast<const std::byte*>(operation.in), static_cast<std::byte*>(operation.out),
                  scratch(schedule.scratch * element), element},
                 patience);
}

bool TcpCommunicator::reduce_scatter(const detail::Operation& operation, Patience& patience) {
  const std::size_t element = kernels::size_of(type_), part = operation.out_count;
  const std::size_t piece =
      std::max<std::size_t>(1, (options_.piece_bytes ? options_.piece_bytes : kPieceBytes) / element);
  const Schedule schedule =
      direct_schedule(position(), part * map_.size(), {.result = DirectOptions::kShares, .piece = piece});
  if (part == 0) return execute(barrier_schedule(position()), {}, patience);
  // The schedule writes the own share alone; the output begins there.
  auto* const data =
      reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(operation.out) - std::size_t(at_) * part * element);
  return execute(schedule,
                 {static_cast<const std::byte*>(operation.in), data, scratch(schedule.scratch * element), element},
                 patience);
}

bool TcpCommunicator::broadcast(const detail::Operation& operation, Patience& patience) {
  const std::size_t bytes = operation.in_count * kernels::size_of(type_);
  auto* const data = static_cast<std::byte*>(operation.out);
  const auto root = int(std::ranges::find(map_, operation.peer) - map_.begin());
  const bool scattered = bytes >= kScatteredMin && position().ranks > 2;
  return execute(met(scattered ? scattered_broadcast_schedule(position(), root, bytes)
                               : broadcast_schedule(position(), root, bytes),
                     position()),
                 {data, data, nullptr, 1}, patience);
}

// First every rank tells all others what it sends and what it wants, so that all find the same mismatch before any data
// moves.
bool TcpCommunicator::all_to_all_v(const detail::Operation& operation, Patience& patience) {
  const auto n = map_.size();
  std::vector<std::uint64_t> own(operation.counts.begin(), operation.counts.end()), all(2 * n * n);
  own.insert(own.end(), operation.recv_counts.begin(), operation.recv_counts.end());
  detail::Operation exchange{.kind = Kind::kAllGather,
                             .type = detail::DType::kU64,
                             .in = own.data(),
                             .in_count = own.size(),
                             .out = all.data(),
                             .out_count = all.size()};
  type_ = kernels::DType(exchange.type);
  if (!move_parts(exchange, patience)) return false;
  type_ = kernels::DType(operation.type);
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to) {
      const std::uint64_t sent = all[2 * n * from + to], wanted = all[2 * n * to + n + from];
      if (sent == wanted) continue;
      links_->fail({Reason::kMismatch,
                    fmt::format("all_to_all_v: rank {} sends {} elements to rank {}, which wants {}", map_[from], sent,
                                map_[to], wanted),
                    {}});
      return false;
    }
  return move_parts(operation, patience);
}

// Parts that go from rank to rank as they are. Every pair exchanges one frame at most, empty ones too: they carry the
// signature.
bool TcpCommunicator::move_parts(const detail::Operation& operation, Patience& patience) {
  const auto n = map_.size(), me = std::size_t(at_);
  const Kind kind = operation.kind;
  const bool to_all = kind == Kind::kAllToAll || kind == Kind::kAllToAllV,
             from_root = kind == Kind::kScatter || kind == Kind::kScatterV,
             to_root = kind == Kind::kGather || kind == Kind::kGatherV;
  const auto root = std::size_t(std::ranges::find(map_, operation.peer) - map_.begin());
  const auto parts = [&](const std::vector<std::size_t>& counts, std::size_t equal) {
    return counts.empty() ? std::vector<std::size_t>(n, equal) : counts;
  };
  // sizes of the parts in the input (one for each receiver) and in the output (one for each sender)
  std::vector<std::size_t> in = to_all     ? parts(operation.counts, operation.in_count / n)
                                : from_root ? parts(operation.counts, operation.out_count)
                                            : std::vector<std::size_t>(n, operation.in_count);
  std::vector<std::size_t> out = to_all      ? parts(operation.recv_counts, operation.in_count / n)
                                 : from_root ? std::vector<std::size_t>(n, operation.out_count)
                                             : parts(operation.counts, operation.in_count);
  const auto offset = [](const std::vector<std::size_t>& sizes, std::size_t i) {
    return std::accumulate(sizes.begin(), sizes.begin() + std::ptrdiff_t(i), std::size_t(0));
  };
  const auto in_at = [&](std::size_t r) { return to_all || from_root ? offset(in, r) : 0; };
  const auto out_at = [&](std::size_t r) { return from_root ? 0 : offset(out, r); };
  const bool sends = !from_root || me == root, receives = !to_root || me == root;
  Schedule schedule;
  for (std::size_t step = 1; step < n; ++step) {
    const std::size_t to = (me + step) % n, from = (me + n - step) % n;
    if (sends && (!to_root || to == root)) schedule.steps.push_back(send_step(int(to), in_at(to), in[to]));
    if (receives && (!from_root || from == root))
      schedule.steps.push_back(receive_step(int(from), out_at(from), out[from]));
  }
  if (sends && receives) schedule.steps.push_back(copy_step(out_at(me), in_at(me), in[me]));
  if (to_root || from_root) schedule = met(std::move(schedule), position());
  return execute(schedule,
                 {static_cast<const std::byte*>(operation.in), static_cast<std::byte*>(operation.out), nullptr,
                  kernels::size_of(type_)},
                 patience);
}

// --------------------------------------------------------------------------------------------------------------- split

std::unique_ptr<Communicator> TcpCommunicator::split(int color, int key, Patience& patience) {
  struct Entry { std::int64_t color, key; };
  std::vector<Entry> entries(static_cast<std::size_t>(size()));
  const auto exchange = [&](const void* own, void* all, std::size_t bytes) {
    detail::Operation operation{.kind = Kind::kSplit,
                                .type = detail::DType::kU8,
                                .in = own,
                                .in_count = bytes,
                                .out = all,
                                .out_count = bytes * std::size_t(size())};
    return run(operation, patience);
  };
  const Entry own{color, key};
  if (!exchange(&own, entries.data(), sizeof own)) return nullptr;
  ++splits_;
  Subgroup subgroup;
  for (int r = 0; r < size() && color >= 0; ++r)
    if (entries[std::size_t(r)].color == color) subgroup.members.push_back(r);
  std::ranges::stable_sort(subgroup.members, {}, [&](int r) { return entries[std::size_t(r)].key; });
  if (color >= 0) subgroup.rank = int(std::ranges::find(subgroup.members, rank()) - subgroup.members.begin());
  subgroup.key = (options_.key ^ (splits_ * 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu + std::uint64_t(color + 1);
  subgroup.exchange = exchange;
  auto links = options_.connect ? options_.connect(*links_, subgroup, patience.deadline())
                                : connect_subgroup(*links_, subgroup, patience.deadline());
  if (!links.ok()) {
    links_->fail_for_part(failure_of(links.error()), subgroup.members);  // TCM-4
    return nullptr;
  }
  if (!*links) return nullptr;
  (*links)->follow(links_);
  // A child ends with its parent: with any of its members, and when it is formed again.
  links_->on_failure([weak = std::weak_ptr<TcpLinks>(*links)](const Failure& failure) {
    const auto child = weak.lock();
    if (!child) return;
    if (failure.reason == Reason::kStale) return child->supersede();
    child->fail(
        {failure.reason, fmt::format("the group that this one was split from has failed: {}", failure.text), {}});
  });
  TcpOptions options = options_;
  options.key = subgroup.key;
  auto child = std::make_unique<TcpCommunicator>(*std::move(links), std::move(options));
  child->ranks_above_ = std::move(subgroup.members);
  return child;
}

}  // namespace troupe::collective
