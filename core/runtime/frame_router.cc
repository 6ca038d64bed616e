#include "core/runtime/frame_router.h"

#include "core/runtime/requests.h"

namespace troupe::worker {

ProcessId FrameRouter::route(ProcessId destination) const {
  if (destination.node != self_.node) return daemon_;
  return by_daemon_.empty() || !by_daemon_.contains(destination) ? destination : daemon_;
}

void FrameRouter::send(ProcessId destination, net::FrameHeader header, ByteView payload) {
  header.source = self_;
  header.destination = destination;
  if (destination == self_) {
    header.payload_size = std::uint32_t(payload.size());
    local_.push_back({header, {payload.begin(), payload.end()}});
    if (!std::exchange(delivering_, true)) mutex_.defer([this] { deliver_local(); });
    return;
  }
  const ProcessId ring = route(destination);
  if (ring == daemon_) {
    if (!clogged_.empty())
      if (auto found = clogged_.find(destination); found != clogged_.end()) {
        found->second.push_back({header, {payload.begin(), payload.end()}});
        return;
      }
    transport_.send(ring, header, payload);
    return;
  }
  if (auto found = waiting_.find(ring); found != waiting_.end()) {
    found->second.push_back({header, {payload.begin(), payload.end()}});
    return;
  }
  if (transport_.send(ring, header, payload) || transport_.attached(ring) || dead_.contains(ring)) return;
  waiting_[ring].push_back({header, {payload.begin(), payload.end()}});
  requests_.send<wire::ConnectReply>(daemon_, wire::Method::kConnect, wire::ConnectRequest{ring},
                                     [this, ring](Result<wire::ConnectReply> reply) {
                                       // Refused for whatever reason: the daemon passes frames on, or says that
                                       // the peer is dead (CR-3).
                                       if (!reply.ok() || reply->through_daemon) by_daemon(ring);
                                     });
}

/// One thread at a time, without the lock: the handler takes it.
void FrameRouter::deliver_local() {
  for (;;) {
    Queued frame;
    {
      CoreLock lock(mutex_);
      if (local_.empty()) {
        delivering_ = false;
        return;
      }
      frame = std::move(local_.front());
      local_.pop_front();
    }
    handler_.on_message(self_, frame.header, frame.payload);
  }
}

void FrameRouter::control(ProcessId destination, Control kind, std::uint64_t arg1, std::uint64_t arg2,
                          ByteView payload) {
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kControl);
  header.arg0 = std::uint64_t(kind);
  header.arg1 = arg1;
  header.arg2 = arg2;
  send(destination, header, payload);
}

void FrameRouter::notice_daemon_bytes(wire::Method method, const std::vector<std::byte>& payload) {
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kNotice);
  header.arg0 = std::uint64_t(method);
  header.source = self_;
  header.destination = daemon_;
  transport_.send(daemon_, header, payload);
}

void FrameRouter::release_waiting(ProcessId peer, ProcessId ring) {
  auto found = waiting_.find(peer);
  if (found == waiting_.end()) return;
  const std::vector<Queued> frames = std::move(found->second);
  waiting_.erase(found);
  for (const Queued& frame : frames) transport_.send(ring, frame.header, frame.payload);
}

void FrameRouter::congestion(const wire::Congestion& news) {
  if (news.clogged) {
    if (!is_dead(news.process)) clogged_.try_emplace(news.process);
    return;
  }
  auto found = clogged_.find(news.process);
  if (found == clogged_.end()) return;
  const std::vector<Queued> frames = std::move(found->second);
  clogged_.erase(found);
  for (const Queued& frame : frames) transport_.send(daemon_, frame.header, frame.payload);
}

void FrameRouter::connected(ProcessId peer) { release_waiting(peer, peer); }

void FrameRouter::by_daemon(ProcessId peer) {
  by_daemon_.insert(peer);
  release_waiting(peer, daemon_);
}

}  // namespace troupe::worker
