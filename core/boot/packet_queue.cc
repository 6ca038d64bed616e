#include "core/boot/packet_queue.h"

#include <fcntl.h>

namespace troupe::node {

PacketQueue::PacketQueue(UniqueFd fd) : fd_(std::move(fd)) {
  ::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

PacketQueue::Flushed PacketQueue::send(wire::BootKind kind, std::vector<std::byte> payload, std::vector<UniqueFd> fds) {
  queue_.push_back({kind, std::move(payload), std::move(fds)});
  return flush();
}

PacketQueue::Flushed PacketQueue::flush() {
  while (!queue_.empty()) {
    const BootPacket& packet = queue_.front();
    std::vector<int> fds;
    for (const UniqueFd& fd : packet.fds) fds.push_back(fd.get());
    Result<Sent> sent = try_send_packet(fd_.get(), packet.kind, packet.payload, fds);
    if (!sent.ok()) {
      problem_ = sent.error().message();
      queue_.clear();
      return Flushed::kFailed;
    }
    if (*sent == Sent::kFull) return Flushed::kFull;
    if (*sent == Sent::kTooManyInFlight) return Flushed::kTooManyInFlight;
    queue_.pop_front();
  }
  return Flushed::kAll;
}

}  // namespace troupe::node
