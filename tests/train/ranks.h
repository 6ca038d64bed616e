// Ranks for the trainer's tests, on shared memory: no runtime, no sockets.
#pragma once
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "collective/group/member.h"
#include "collective/shm/communicator.h"

namespace troupe::train::testing {

using SegmentPtr = std::shared_ptr<collective::ShmSegment>;

inline SegmentPtr make_segment(int ranks, std::uint64_t epoch = 1) {
  return *collective::ShmSegment::create({.ranks = ranks, .epoch = epoch, .key = 0x7a11 + epoch});
}

inline collective::Group make_group(std::unique_ptr<collective::Communicator> communicator) {
  return collective::Group(std::make_shared<collective::detail::Member>(
      std::move(communicator),
      collective::detail::MemberOptions{.group = "test", .timeout = std::chrono::seconds(60), .environment = nullptr}));
}
inline collective::Group make_group(const SegmentPtr& segment, int rank) {
  return make_group(std::make_unique<collective::ShmCommunicator>(segment, rank));
}

/// Runs `body` as every rank, on a thread each, and waits for all.
inline void on_threads(int ranks, const std::function<void(collective::Group)>& body) {
  const SegmentPtr segment = make_segment(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { body(make_group(segment, r)); });
  for (auto& thread : threads) thread.join();
}

}  // namespace troupe::train::testing
