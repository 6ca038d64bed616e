#include "collective/device/staging.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace troupe::collective {

void Staging::open() {
  for (Piece& piece : pieces_) {
    if (!piece.memory) piece.memory = device_.take_pinned();
    if (!piece.event) piece.event = device_.take_event();
  }
}

Staging::~Staging() {
  for (Piece& piece : pieces_) {
    if (piece.event) device_.give_event(piece.event);
    if (piece.memory) device_.give_pinned(piece.memory);
  }
}

void Staging::await(void* event) {
  for (const auto until = Clock::now() + device_.limits().finalize; Clock::now() < until; std::this_thread::yield())
    if (const int status = device_.cuda().event_query(event); status != kCudaNotReady)
      return device_.check(status, "a copy between host and GPU");
  throw Error(fmt::format("GPU {}: a copy between host and GPU did not end", device_.index()));
}

void Staging::to_device(void* to, const void* from, std::size_t bytes) {
  device_.use();
  open();
  bool used[2] = {};
  for (std::size_t at = 0, k = 0; at < bytes; at += kPieceBytes, ++k) {
    Piece& piece = pieces_[k % 2];
    const std::size_t size = std::min(kPieceBytes, bytes - at);
    if (std::exchange(used[k % 2], true)) await(piece.event);
    std::memcpy(piece.memory, static_cast<const std::byte*>(from) + at, size);
    device_.check(device_.cuda().copy(static_cast<std::byte*>(to) + at, piece.memory, size, device_.copy_stream()),
                  "cudaMemcpyAsync");
    device_.check(device_.cuda().event_record(piece.event, device_.copy_stream()), "cudaEventRecord");
  }
  for (int k = 0; k < 2; ++k)
    if (used[k]) await(pieces_[k].event);
}

void Staging::to_host(void* to, const void* from, std::size_t bytes) {
  device_.use();
  open();
  const auto fetch = [&](std::size_t at, Piece& piece) {
    device_.check(device_.cuda().copy(piece.memory, static_cast<const std::byte*>(from) + at,
                                      std::min(kPieceBytes, bytes - at), device_.copy_stream()),
                  "cudaMemcpyAsync");
    device_.check(device_.cuda().event_record(piece.event, device_.copy_stream()), "cudaEventRecord");
  };
  if (bytes != 0) fetch(0, pieces_[0]);
  for (std::size_t at = 0, k = 0; at < bytes; at += kPieceBytes, ++k) {
    Piece& piece = pieces_[k % 2];
    if (at + kPieceBytes < bytes) fetch(at + kPieceBytes, pieces_[(k + 1) % 2]);
    await(piece.event);
    std::memcpy(static_cast<std::byte*>(to) + at, piece.memory, std::min(kPieceBytes, bytes - at));
  }
}

}  // namespace troupe::collective
