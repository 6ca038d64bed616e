#include "core/runtime/frame_router.h"

#include "core/base/log.h"
#include "core/runtime/requests.h"
#include "core/runtime/service_queue.h"

namespace troupe::worker {

ProcessId FrameRouter::route(ProcessId destination) const {
  if (destination.node != self_.node) return daemon_;
  return by_daemon_.empty() || !by_daemon_.contains(destination) ? destination : daemon_;
}

bool FrameRouter::send(ProcessId destination, net::FrameHeader header, ByteView payload) {
  if (destination != self_ && payload.size() > net::kPayloadMax) {  // CR-6
    write_log(LogLevel::kError, "a frame of kind {} for process {} is not sent: {} bytes are more than one may have",
              header.kind, to_string(destination), payload.size());
    return false;
  }
  header.source = self_;
  header.destination = destination;
  if (destination == self_) {
    header.payload_size = std::uint32_t(payload.size());
    local_.push_back({header, {payload.begin(), payload.end()}});
    if (!std::exchange(delivering_, true)) mutex_.defer([this] { deliver_local(); });
    return true;
  }
  const ProcessId ring = route(destination);
  if (ring == daemon_) {
    send_by_daemon(destination, header, payload);
    return true;
  }
  if (auto found = waiting_.find(ring); found != waiting_.end()) {
    found->second.push_back({header, {payload.begin(), payload.end()}});
    return true;
  }
  if (transport_.send(ring, header, payload) || transport_.attached(ring) || dead_.contains(ring)) return true;
  waiting_[ring].push_back({header, {payload.begin(), payload.end()}});
  requests_.send<wire::ConnectReply>(daemon_, wire::Method::kConnect, wire::ConnectRequest{ring},
                                     [this, ring](Result<wire::ConnectReply> reply) {
                                       if (is_dead(ring)) return;  // it died while we asked (CR-7)
                                       // Refused for whatever reason: the daemon passes frames on, or says that
                                       // the peer is dead (CR-3).
                                       if (!reply.ok() || reply->through_daemon) by_daemon(ring);
                                     });
  return true;
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
  for (const Queued& frame : frames) {
    if (ring == daemon_) send_by_daemon(peer, frame.header, frame.payload);
    else transport_.send(ring, frame.header, frame.payload);
  }
}

// ------------------------------------------------------------------------------------------------ waiting (CR-4, CR-5)

bool FrameRouter::is_clogged(ProcessId destination) const {
  return !clogged_.empty() && (clogged_.contains(destination) || clogged_.contains(daemon_of(destination.node)));
}

bool FrameRouter::may_go(ProcessId destination) const {
  const ProcessId ring = route(destination);
  return (ring != daemon_ || !is_clogged(destination)) && transport_.backlog(ring) <= kOutboxMax;
}

void FrameRouter::send_by_daemon(ProcessId destination, const net::FrameHeader& header, ByteView payload) {
  if (destination == daemon_ || (!held_.contains(destination) && may_go(destination))) {
    transport_.send(daemon_, header, payload);
    return;
  }
  held_.add(destination, header, payload);
  if (!is_clogged(destination)) look_soon();
}

void FrameRouter::count(Count what, ObjectId id, std::uint64_t grants) {
  const ProcessId owner = id.maker;
  const ReleasedGrants released{id, grants};
  const ByteView payload = what == Count::kRelease ? std::as_bytes(std::span(&released, 1))
                                                   : std::as_bytes(std::span(&id, 1));
  net::FrameHeader header;
  header.kind = std::uint8_t(what == Count::kValueRequest ? wire::FrameKind::kValueRequest : wire::FrameKind::kControl);
  if (what != Count::kValueRequest)
    header.arg0 = std::uint64_t(what == Count::kRelease ? Control::kRelease : Control::kBorrow);
  if (owner == self_ || (!held_.contains(owner) && may_go(owner))) {
    send(owner, header, payload);
    return;
  }
  if (is_dead(owner)) return;
  header.source = self_;
  header.destination = owner;
  held_.count(owner, what, id, header, payload);
  look_soon();
}

std::size_t FrameRouter::backlog(ProcessId destination) const {
  const ProcessId ring = route(destination);
  return held_.bytes(destination) + (ring == daemon_ ? 0 : transport_.backlog(ring));
}

void FrameRouter::let_go() {
  ProcessId destination;
  HeldFrames::Frame frame;
  while (held_.next([this](ProcessId to) { return may_go(to); }, destination, frame)) {
    const ProcessId ring = route(destination);
    if (ring == daemon_) transport_.send(ring, frame.header, frame.payload);
    else send(destination, frame.header, frame.payload);
  }
  if (held_.any_of([this](ProcessId to) { return route(to) != daemon_ || !is_clogged(to); })) look_soon();
}

void FrameRouter::look_soon() {
  if (std::exchange(looking_, true)) return;
  timers_.add_timer(clock_.deadline_after(kLook), [this] {
    looking_ = false;
    let_go();
  });
}

void FrameRouter::congestion(const wire::Congestion& news) {
  if (news.clogged) {
    if (!is_dead(news.process)) clogged_.insert(news.process);
    return;
  }
  if (clogged_.erase(news.process) > 0) let_go();
}

void FrameRouter::connected(ProcessId peer) { release_waiting(peer, peer); }

void FrameRouter::by_daemon(ProcessId peer) {
  by_daemon_.insert(peer);
  release_waiting(peer, daemon_);
}

}  // namespace troupe::worker
