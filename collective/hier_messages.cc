// Messages of HierCommunicator: by memory between ranks of a node, else by sockets, and how one rank waits for both (HC-5).
#include <utility>

#include "collective/hier_communicator.h"
#include "core/base/thread.h"

namespace troupe::collective {

namespace {
constexpr auto kSlice = std::chrono::milliseconds(100);  // the ear looks whether it is still wanted
}

void HierCommunicator::post(Transfer& transfer) {
  const bool here = inside_ && transfer.peer != rank() && map_.together(transfer.peer, rank());
  if (!here) return across_->post(transfer);
  transfer.peer = map_.place_of(transfer.peer);
  inside_->post(transfer);
}

bool HierCommunicator::pump() {
  if (inside_ && broken()) inside_->forget_messages();  // they belong to others, who have let go of them or do so now
  const bool moved = across_->pump();
  return (inside_ && inside_->has_messages() && inside_->pump()) || moved;
}

bool HierCommunicator::wait_messages(Clock::time_point deadline, Environment* environment) {
  if (broken()) return false;
  if (!inside_ || !inside_->has_messages()) return across_->wait_messages(deadline, environment);
  if (!across_->has_messages()) {
    (void)inside_->wait_messages(deadline, environment);
    return !broken();
  }
  const int place = map_.place();
  ShmSegment& segment = *inside_->segment();
  const std::uint32_t seen = segment.announce_sleep(place);
  struct Sleep { ShmSegment& segment; int place; ~Sleep() { segment.end_sleep(place); } } sleep{segment, place};  // a cancelled call throws
  if (inside_->messages_changed() || broken()) return !broken();
  listen_for(seen);
  (void)across_->wait_messages(deadline, environment);
  return !broken();
}

/// A rank waits for one of the two or for both: who wants it awake does not know which.
void HierCommunicator::nudge() {
  across_->nudge();
  if (inside_) inside_->nudge();
}

void HierCommunicator::listen_for(std::uint32_t seen) {
  {
    std::lock_guard lock(ear_mutex_);
    listen_from_ = seen;
  }
  ear_wakes_.notify_one();
  if (ear_.joinable()) return;
  ear_ = start_thread([this] { listen(); });
}

/// A wait that is over is not called off: until the bell is rung, the next one would wait for the same.
void HierCommunicator::listen() {
  std::unique_lock lock(ear_mutex_);
  for (;;) {
    ear_wakes_.wait(lock, [this] { return stopping_.load() || listen_from_; });
    if (stopping_.load()) return;
    const std::uint32_t seen = *std::exchange(listen_from_, std::nullopt);
    lock.unlock();
    inside_->segment()->wait_bell(map_.place(), seen, Clock::now() + kSlice);
    across_->links()->wake();
    lock.lock();
  }
}

}  // namespace troupe::collective
