// Carrying out schedules, and waiting. The operations: tcp_operations.cc.
#include "collective/tcp_communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/copy.h"

namespace troupe::collective {
namespace {

constexpr auto kSpin = std::chrono::microseconds(200);
constexpr auto kTellAfter = std::chrono::milliseconds(50);
constexpr auto kSlice = std::chrono::milliseconds(100);  // sleeping ranks look for cancels

int cores_here() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

TcpCommunicator::TcpCommunicator(std::shared_ptr<TcpLinks> links, TcpOptions options)
    : links_(std::move(links)), options_(std::move(options)), streams_(*links_), inputs_(std::size_t(links_->ranks())), posted_sends_(std::size_t(links_->ranks())),
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

bool TcpCommunicator::run(const detail::Operation& operation, Patience& patience) { return run_among(all_, {++sequence_, signature_of(operation)}, operation, patience); }

bool TcpCommunicator::run_among(const std::vector<int>& members, const Progress& as, const detail::Operation& operation, Patience& patience) {
  type_ = kernels::DType(operation.type);
  reduce_ = {kernels::ReduceOp(operation.op.kind()), operation.op.scale(), int(members.size()), false};
  return step(members, as, [&] { return dispatch(operation, patience); });
}

bool TcpCommunicator::run_moves(const Progress& as, const Schedule& schedule, const Memories& memories, Patience& patience) {
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

// ------------------------------------------------------------------------------------------------------------------- schedules

bool TcpCommunicator::overlaps(const std::vector<Window>& windows, const std::byte* begin, std::size_t bytes) const {
  if (bytes == 0) return false;
  return std::ranges::any_of(windows, [&](const Window& w) { return w.begin < begin + bytes && begin < w.end; });
}

/// Forgets what is through: frames of a pair go in order.
void TcpCommunicator::prune() {
  std::erase_if(reading_, [&](const Window& w) { return streams_.sent(w.peer) >= w.number; });
  std::erase_if(writing_, [&](const Window& w) { return streams_.received(w.peer) >= w.number; });
}

/// False: it must wait for something under way (TC-2).
bool TcpCommunicator::issue(const Step& step, const Memories& m) {
  const auto at = [&](const Range& range) -> const std::byte* {
    return (range.memory == Memory::kScratch ? m.scratch : range.memory == Memory::kInput ? m.input : m.data) + range.begin * m.element;
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
      if (overlaps(reading_, range, bytes) || overlaps(writing_, range, bytes) || overlaps(writing_, at(step.from), step.from.size() * m.element)) return false;
      if (step.kind == Step::Kind::kCopy) {
        if (range != at(step.from) && bytes != 0) kernels::copy(const_cast<std::byte*>(range), at(step.from), bytes, {.stream = false});
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
  const std::byte* const from = (step.from.memory == Memory::kScratch ? m.scratch : m.data) + step.from.begin * m.element;
  if (step.kind == Step::Kind::kReduceAll) {
    for (std::size_t r = 0; r < map_.size(); ++r) inputs_[r] = int(r) == at_ ? m.input + step.range.begin * m.element : from + r * step.stride * m.element;
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

// --------------------------------------------------------------------------------------------------------------------- waiting

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
  const auto tell_at = idle_since_ + std::min<Clock::duration>(kTellAfter, std::chrono::duration_cast<Clock::duration>(patience.timeout()) / 4);
  if (now >= tell_at) links_->tell_progress();
  streams_.sleep(std::min({patience.deadline(), now + kSlice, now < tell_at ? tell_at : Clock::time_point::max()}));
  return !links_->has_failed();
}

void TcpCommunicator::interrupted(const std::exception& error) {
  links_->fail({Reason::kAborted, fmt::format("the call on rank {} was interrupted: {}", rank(), error.what()), {}});
}

bool TcpCommunicator::timed_out(Patience& patience) {
  links_->look();
  if (links_->has_failed()) return false;
  Failure failure{Reason::kTimeout, "", links_->not_arrived(current_.sequence)};
  for (const Window& w : writing_)  // all have come: who is behind?
    if (failure.missing_ranks.empty() && streams_.received(w.peer) < w.number) failure.missing_ranks.push_back(w.peer);
  failure.text = fmt::format("rank {} waited {} ms for rank{} {} in {}", rank(), std::chrono::duration_cast<std::chrono::milliseconds>(patience.timeout()).count(),
                             failure.missing_ranks.size() == 1 ? "" : "s", fmt::join(failure.missing_ranks, ", "), describe(current_.signature));
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
  Patience patience(deadline == Clock::time_point::max() ? kForever : std::max<Duration>(Duration::zero(), deadline - Clock::now()), environment);
  links_->look();
  if (links_->has_failed()) return false;
  try {
    patience.check();
  } catch (const std::exception& error) {
    interrupted(error);
    throw;
  }
  streams_.sleep(std::min(deadline, Clock::now() + kSlice));
  return !links_->has_failed();
}

}  // namespace troupe::collective
