// broadcast, gather, scatter, all_to_all in shared memory: operations that only move bytes.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "collective/shm_communicator.h"

namespace troupe::collective {

using detail::Kind;

namespace {
constexpr std::size_t kStreamMin = 2u << 20;  // outputs from here on are written around the cache
constexpr std::size_t kLine = 64;
std::size_t rounds_for(std::size_t bytes, std::size_t piece) { return std::max<std::size_t>(1, (bytes + piece - 1) / piece); }
/// The bytes of piece i of something.
std::size_t length(std::size_t bytes, std::size_t piece, std::size_t i) { return i * piece >= bytes ? 0 : std::min(piece, bytes - i * piece); }
}  // namespace

bool ShmCommunicator::broadcast(const detail::Operation& operation, Patience& patience) {
  auto* data = static_cast<std::byte*>(operation.out);
  const std::size_t bytes = operation.in_count * element_, piece = segment_->slot_bytes();
  const bool root = operation.peer == rank_;
  return rounds(
      rounds_for(bytes, piece), patience,
      [&](std::size_t i, std::byte* buffer) { if (root) copy(buffer, data + i * piece, length(bytes, piece, i)); },
      [&](std::size_t i, std::uint64_t sequence) {
        if (!root) copy(data + i * piece, segment_->buffer(operation.peer, sequence), length(bytes, piece, i), bytes >= kStreamMin);
      });
}

// all_gather and gather, with equal parts or not.
bool ShmCommunicator::gather(const detail::Operation& operation, Patience& patience) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  auto* out = static_cast<std::byte*>(operation.out);
  const bool all = operation.kind == Kind::kAllGather || operation.kind == Kind::kAllGatherV || operation.kind == Kind::kSplit,
             wanted = all || operation.peer == rank_;
  const bool equal = operation.counts.empty();
  const auto bytes_of = [&](int r) { return (equal ? operation.in_count : operation.counts[std::size_t(r)]) * element_; };
  std::size_t most = 0, total = 0;
  for (int r = 0; r < ranks_; ++r) most = std::max(most, bytes_of(r)), total += bytes_of(r);
  const std::size_t piece = segment_->slot_bytes(), own = operation.in_count * element_;
  return rounds(
      rounds_for(most, piece), patience, [&](std::size_t i, std::byte* buffer) { copy(buffer, in + i * piece, length(own, piece, i)); },
      [&](std::size_t i, std::uint64_t sequence) {
        std::size_t offset = 0;
        for (int r = 0; r < ranks_ && wanted; offset += bytes_of(r), ++r) {
          const std::size_t n = length(bytes_of(r), piece, i);
          if (n != 0) copy(out + offset + i * piece, r == rank_ ? in + i * piece : segment_->buffer(r, sequence), n, total >= kStreamMin);
        }
      });
}

bool ShmCommunicator::scatter(const detail::Operation& operation, Patience& patience) {
  const auto* in = static_cast<const std::byte*>(operation.in);
  auto* out = static_cast<std::byte*>(operation.out);
  const bool root = operation.peer == rank_, equal = operation.counts.empty();
  const auto bytes_of = [&](int r) { return (equal ? operation.out_count : operation.counts[std::size_t(r)]) * element_; };
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
        const std::byte* from = root ? in + offset_of_own + i * piece : segment_->buffer(operation.peer, sequence) + std::size_t(rank_) * piece;
        if (const std::size_t n = length(bytes_of(rank_), piece, i); n != 0) copy(out + i * piece, from, n);
      });
}

// The numbers of elements that go from each rank to each; with all_to_all_v they are exchanged first, and compared.
bool ShmCommunicator::all_to_all(const detail::Operation& operation, Patience& patience) {
  const auto n = std::size_t(ranks_);
  if (operation.kind == Kind::kAllToAll) return all_to_all_parts(operation, std::vector<std::size_t>(n * n, operation.in_count / n), patience);
  std::vector<std::size_t> matrix(n * n), wanted(n * n);
  const auto publish_counts = [&](std::size_t, std::byte* buffer) {
    std::memcpy(buffer, operation.counts.data(), n * sizeof(std::size_t));
    std::memcpy(buffer + n * sizeof(std::size_t), operation.recv_counts.data(), n * sizeof(std::size_t));
  };
  const auto read_counts = [&](std::size_t, std::uint64_t sequence) {
    for (int r = 0; r < ranks_; ++r) {
      std::memcpy(&matrix[std::size_t(r) * n], segment_->buffer(r, sequence), n * sizeof(std::size_t));
      std::memcpy(&wanted[std::size_t(r) * n], segment_->buffer(r, sequence) + n * sizeof(std::size_t), n * sizeof(std::size_t));
    }
  };
  if (!rounds(1, patience, publish_counts, read_counts)) return false;
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to)
      if (matrix[from * n + to] != wanted[to * n + from]) {
        segment_->fail({Reason::kMismatch, fmt::format("all_to_all_v: rank {} sends {} elements to rank {}, which wants {}", from, matrix[from * n + to], to, wanted[to * n + from]), {}});
        return false;
      }
  return all_to_all_parts(operation, matrix, patience);
}

bool ShmCommunicator::all_to_all_parts(const detail::Operation& operation, const std::vector<std::size_t>& matrix, Patience& patience) {
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
          if (size != 0) copy(out + offset + i * piece, r == me ? in + own_in + i * piece : segment_->buffer(int(r), sequence) + me * piece, size);
        }
      });
}

// The parcels of a giver are one stream, which goes through its buffers.
bool ShmCommunicator::deliver(const std::vector<std::vector<ShmParcel>>& parcels, const Signature& as, Patience& patience) {
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
        cut(rank_, i, [&](const ShmParcel& parcel, std::size_t in_parcel, std::size_t in_piece, std::size_t n) { copy(buffer + in_piece, parcel.from + in_parcel, n); });
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
