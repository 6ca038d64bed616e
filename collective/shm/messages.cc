#include "collective/shm/messages.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kernels/cpu/isa/dtype.h"

namespace troupe::collective {
namespace {
constexpr std::size_t kStashMax = std::size_t(256) << 20;  // unasked-for messages; a rank that gets more is out of step
}

ShmMessages::ShmMessages(ShmSegment& segment, int rank)
    : segment_(segment), rank_(rank), peers_(std::size_t(segment.ranks())) {}

void ShmMessages::post(Transfer& transfer) {
  Peer& peer = peers_[std::size_t(transfer.peer)];
  (transfer.sends ? peer.sends : peer.recvs).push_back(&transfer);
}

void ShmMessages::clear() {
  for (Peer& peer : peers_) {
    peer.sends.clear();
    peer.recvs.clear();
    peer.target = nullptr;
  }
}

bool ShmMessages::under_way() const {
  return std::ranges::any_of(peers_, [](const Peer& peer) { return !peer.sends.empty() || !peer.recvs.empty(); });
}

bool ShmMessages::changed() {
  for (int p = 0; p < segment_.ranks(); ++p) {
    Peer& peer = peers_[std::size_t(p)];
    if (!peer.sends.empty() && segment_.read(rank_, p).bytes.load(std::memory_order_acquire) != peer.seen_read)
      return true;
    if (!peer.recvs.empty() && segment_.written(p, rank_).bytes.load(std::memory_order_acquire) != peer.seen_written)
      return true;
  }
  return false;
}

bool ShmMessages::pump(std::optional<Failure>& mismatch) {
  bool moved = false;
  for (int p = 0; p < segment_.ranks() && !mismatch; ++p) {
    Peer& peer = peers_[std::size_t(p)];
    if (!peer.sends.empty()) moved |= pump_sends(p);
    if (!peer.recvs.empty()) moved |= pump_recvs(p, mismatch);
  }
  if (moved) segment_.wake_sleepers();
  return moved;
}

void ShmMessages::put(int to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;  // an empty message may have no address
  const std::size_t ring = segment_.message_bytes(), at = peers_[std::size_t(to)].written % ring,
                    first = std::min(bytes, ring - at);
  std::byte* memory = segment_.messages(rank_, to);
  std::memcpy(memory + at, from, first);
  std::memcpy(memory, static_cast<const std::byte*>(from) + first, bytes - first);
  peers_[std::size_t(to)].written += bytes;
}

void ShmMessages::take(int from, void* to, std::size_t bytes) {
  if (bytes == 0) return;  // an empty message may have no address
  const std::size_t ring = segment_.message_bytes(), at = peers_[std::size_t(from)].read % ring,
                    first = std::min(bytes, ring - at);
  const std::byte* memory = segment_.messages(from, rank_);
  std::memcpy(to, memory + at, first);
  std::memcpy(static_cast<std::byte*>(to) + first, memory, bytes - first);
  peers_[std::size_t(from)].read += bytes;
}

bool ShmMessages::pump_sends(int p) {
  Peer& peer = peers_[std::size_t(p)];
  peer.seen_read = segment_.read(rank_, p).bytes.load(std::memory_order_acquire);
  const std::uint64_t before = peer.written;
  while (!peer.sends.empty()) {
    Transfer& transfer = *peer.sends.front();
    std::size_t room = segment_.message_bytes() - std::size_t(peer.written - peer.seen_read);
    if (!transfer.begun) {
      if (room < sizeof(Header)) break;
      const Header header{transfer.bytes, transfer.tag, std::uint32_t(transfer.type)};
      put(p, &header, sizeof header);
      room -= sizeof header;
      transfer.begun = true;
    }
    const std::size_t bytes = std::min(room, transfer.bytes - transfer.moved);
    put(p, transfer.from + transfer.moved, bytes);
    transfer.moved += bytes;
    // What is written is shown before more is waited for: the two sides copy at the same time.
    segment_.written(rank_, p).bytes.store(peer.written, std::memory_order_release);
    if (transfer.moved < transfer.bytes) break;
    transfer.done = true;
    peer.sends.pop_front();
  }
  return peer.written != before;
}

bool ShmMessages::take_stashed(int p, std::optional<Failure>& mismatch) {
  Peer& peer = peers_[std::size_t(p)];
  bool moved = false;
  for (auto recv = peer.recvs.begin(); recv != peer.recvs.end() && !mismatch;) {
    Transfer& transfer = **recv;
    const auto found =
        std::ranges::find_if(peer.stashed, [&](const Stash& stash) { return stash.header.tag == transfer.tag; });
    if (found == peer.stashed.end() || found->got < found->header.bytes || &transfer == peer.target) {
      ++recv;
      continue;
    }
    if (found->header.bytes != transfer.bytes || found->header.type != std::uint32_t(transfer.type)) {
      mismatch = describe(p, found->header, transfer);
      break;
    }
    if (transfer.bytes != 0) std::memcpy(transfer.to, found->data.data(), transfer.bytes);
    stashed_bytes_ -= transfer.bytes;
    peer.stashed.erase(found);
    transfer.done = true;
    recv = peer.recvs.erase(recv);
    moved = true;
  }
  return moved;
}

/// A header is there: where does the payload go? False when it must wait.
bool ShmMessages::begin_message(int p, std::optional<Failure>& mismatch) {
  Peer& peer = peers_[std::size_t(p)];
  const bool older =
      std::ranges::any_of(peer.stashed, [&](const Stash& stash) { return stash.header.tag == peer.header.tag; });
  const auto recv =
      std::ranges::find_if(peer.recvs, [&](const Transfer* transfer) { return transfer->tag == peer.header.tag; });
  if (!older && recv != peer.recvs.end()) {  // SM-1: an older message of that tag goes first
    if ((*recv)->bytes != peer.header.bytes || std::uint32_t((*recv)->type) != peer.header.type) {
      mismatch = describe(p, peer.header, **recv);
      return false;
    }
    peer.target = *recv;
    return true;
  }
  if (stashed_bytes_ + peer.header.bytes > kStashMax && stashed_bytes_ > 0) return false;
  peer.stashed.push_back({peer.header, std::vector<std::byte>(peer.header.bytes), 0});
  peer.stash = &peer.stashed.back();
  stashed_bytes_ += peer.header.bytes;
  return true;
}

bool ShmMessages::pump_recvs(int p, std::optional<Failure>& mismatch) {
  Peer& peer = peers_[std::size_t(p)];
  bool moved = take_stashed(p, mismatch);
  const std::uint64_t before = peer.read;
  peer.seen_written = segment_.written(p, rank_).bytes.load(std::memory_order_acquire);
  while (!peer.recvs.empty() && !mismatch) {
    std::size_t there = std::size_t(peer.seen_written - peer.read);
    if (!peer.in_message) {
      if (there < sizeof(Header)) break;
      take(p, &peer.header, sizeof(Header));
      there -= sizeof(Header);
      peer.in_message = true;
      peer.got = 0;
    }
    if (!peer.target && !peer.stash && !begin_message(p, mismatch)) break;
    const std::size_t bytes = std::min<std::size_t>(there, peer.header.bytes - peer.got);
    take(p, (peer.target ? peer.target->to : peer.stash->data.data()) + peer.got, bytes);
    peer.got += bytes;
    segment_.read(p, rank_).bytes.store(peer.read, std::memory_order_release);
    if (peer.got < peer.header.bytes) break;
    peer.in_message = false;
    if (peer.target) {
      peer.target->done = true;
      std::erase(peer.recvs, std::exchange(peer.target, nullptr));
    } else {
      std::exchange(peer.stash, nullptr)->got = peer.got;
      moved |= take_stashed(p, mismatch);
    }
  }
  if (peer.read != before) segment_.read(p, rank_).bytes.store(peer.read, std::memory_order_release);
  return moved || peer.read != before;
}

Failure ShmMessages::describe(int peer, const Header& header, const Transfer& transfer) const {
  const auto text = [](std::uint64_t bytes, std::uint32_t type) {
    const auto dtype = kernels::DType(type);
    const std::size_t size = kernels::size_of(dtype);
    return fmt::format("{} {}", size ? bytes / size : bytes, size ? kernels::name_of(dtype) : "bytes");
  };
  return {Reason::kMismatch,
          fmt::format("rank {} sent {} with tag {}, rank {} wanted {}", name(peer), text(header.bytes, header.type),
                      header.tag, name(rank_), text(transfer.bytes, std::uint32_t(transfer.type))),
          {}};
}

}  // namespace troupe::collective
