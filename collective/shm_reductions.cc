// all_reduce, reduce and reduce_scatter in shared memory.
//
// Memory traffic of an all-reduce of N bytes by n ranks, when the chunks stay in the caches: every rank reads its N once and
// writes its N once, around the cache. That is also the least there is: T_min = 2 n N / bandwidth of streaming copies.
#include <algorithm>
#include <cstring>

#include "collective/shm_communicator.h"
#include "kernels/copy.h"

namespace troupe::collective {

using detail::Kind;

namespace {
constexpr std::size_t kOneShotMax = 1u << 20;     // over the ranks: with more of them, every rank would read too much
constexpr std::size_t kOneShotOfTwo = 2u << 10;   // two ranks share from there on: half the lines for one meeting more (decision 012)
constexpr std::size_t kPiece = 64u << 10;         // of a one-shot: the first pieces are reduced while the last are written
constexpr std::size_t kStreamMin = 2u << 20;      // outputs from here on are written around the cache
constexpr std::size_t kLine = 64;
constexpr std::size_t kChunkMin = 64u << 10;      // of an all-reduce in shares: a few chunks overlap, each with the cost of two meetings

std::size_t chunk_bytes(std::size_t bytes, std::size_t slot) { return std::min(slot, std::max(kChunkMin, (bytes / 4 + kLine - 1) / kLine * kLine)); }
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
  const std::size_t one_shot = std::min(ranks_ == 2 ? kOneShotOfTwo : kOneShotMax / std::size_t(ranks_), segment_->slot_bytes());
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
        for (int r = 0; r < ranks_; ++r) inputs_[std::size_t(r)] = r == rank_ ? in + i * kPiece : segment_->buffer(r, sequence);
        reduce_into(out + i * kPiece, length(i) / element_, false);
      });
}

// Chunk c takes two sequence numbers: a (inputs are there) and b (shares are reduced). A rank reduces its share of chunk c, then
// does two things side by side (kernels::copy_both): it fetches the others' shares of chunk c - 1, whose lines come from other
// cores' caches, and writes its input of chunk c + 1, which comes from memory. What it waits for was published a chunk's time
// before.
//
// Of two ranks, each leaves its share in the lines of the other's buffer that it has just read (SG-1): the other fetches it from
// there and writes its next input over it, so that a line goes from core to core twice a chunk and not four times.
bool ShmCommunicator::all_reduce_shares(const detail::Operation& operation, Patience& patience) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  auto* out = static_cast<std::byte*>(operation.out);
  const std::size_t bytes = operation.in_count * element_, chunk = chunk_bytes(bytes, segment_->slot_bytes()), chunks = (bytes + chunk - 1) / chunk;
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
    return ranks_ == 2 ? segment_->buffer(1 - rank, first + 2 * c) + share(c, rank).begin : segment_->buffer(rank, first + 2 * c + 1);
  };
  // The others' shares of chunk `done` to the output, this rank's part in them of chunk `next` to its buffer; either may not be.
  // The second may lie upon the first, or before it where the last chunk is shorter.
  const std::size_t none = chunks;
  const auto fetch_and_write = [&](std::size_t done, std::size_t next) {
    for (int r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;  // nobody but this rank needs its own share
      kernels::CopyJob fetch, write;
      if (const auto [begin, size] = share(done, r); wanted && size != 0) fetch = {out + done * chunk + begin, reduced(done, r), size};
      if (const auto [begin, size] = share(next, r); size != 0) write = {segment_->buffer(rank_, first + 2 * next) + begin, in + next * chunk + begin, size};
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
    for (int r = 0; r < ranks_; ++r) inputs_[std::size_t(r)] = (r == rank_ ? in + c * chunk : segment_->buffer(r, a)) + begin;
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
          inputs_[std::size_t(r)] = r == rank_ ? in + std::size_t(rank_) * bytes + i * piece : segment_->buffer(r, sequence) + std::size_t(rank_) * piece;
        reduce_into(out + i * piece, length(i) / element_, false);
      });
}

}  // namespace troupe::collective
