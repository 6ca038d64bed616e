#include "core/worker/courier.h"

#include "core/worker/core.h"
#include "core/worker/outlet.h"

namespace troupe::worker {

ProcessId Courier::route(ProcessId destination) const {
  if (destination.node != core_.self().node) return core_.daemon();
  return by_daemon_.empty() || !by_daemon_.contains(destination) ? destination : core_.daemon();
}

bool Courier::put(ProcessId ring, const net::FrameHeader& header, ByteView payload) {
  if (Outlet* outlet = core_.outlet()) [[unlikely]] return outlet->send(ring, header, payload);
  if (core_.is_cut_off()) [[unlikely]] return true;  // nobody hears from the dead
  return core_.endpoint().send(ring, header, payload);
}

bool Courier::attached(ProcessId ring) const { return core_.outlet() ? core_.outlet()->attached(ring) : core_.endpoint().attached(ring); }

std::uint32_t Courier::own_node() const { return core_.self().node; }

void Courier::send(ProcessId destination, net::FrameHeader header, ByteView payload) {
  header.source = core_.self();
  header.destination = destination;
  if (destination == core_.self()) {
    header.payload_size = std::uint32_t(payload.size());
    local_.push_back({header, {payload.begin(), payload.end()}});
    return;
  }
  const ProcessId ring = route(destination);
  if (ring == core_.daemon()) {
    put(ring, header, payload);
    return;
  }
  if (auto found = waiting_.find(ring); found != waiting_.end()) {
    found->second.push_back({header, {payload.begin(), payload.end()}});
    return;
  }
  if (put(ring, header, payload) || attached(ring) || dead_.contains(ring)) return;
  waiting_[ring].push_back({header, {payload.begin(), payload.end()}});
  core_.requests().send<wire::ConnectReply>(core_.daemon(), wire::Method::kConnect, wire::ConnectRequest{ring}, [this, ring](Result<wire::ConnectReply> reply) {
    if (!reply.ok()) unreachable(ring);
    else if (reply->through_daemon) by_daemon(ring);
  });
}

void Courier::control(ProcessId destination, Control kind, std::uint64_t arg1, std::uint64_t arg2, ByteView payload) {
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kControl);
  header.arg0 = std::uint64_t(kind);
  header.arg1 = arg1;
  header.arg2 = arg2;
  send(destination, header, payload);
}

void Courier::notice_daemon_bytes(wire::Method method, const std::vector<std::byte>& payload) {
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kNotice);
  header.arg0 = std::uint64_t(method);
  header.source = core_.self();
  header.destination = core_.daemon();
  put(core_.daemon(), header, payload);
}

void Courier::connected(ProcessId peer) {
  auto found = waiting_.find(peer);
  if (found == waiting_.end()) return;
  std::vector<Local> frames = std::move(found->second);
  waiting_.erase(found);
  for (Local& frame : frames) put(peer, frame.header, frame.payload);
}

void Courier::by_daemon(ProcessId peer) {
  by_daemon_.insert(peer);
  auto found = waiting_.find(peer);
  if (found == waiting_.end()) return;
  std::vector<Local> frames = std::move(found->second);
  waiting_.erase(found);
  for (Local& frame : frames) put(core_.daemon(), frame.header, frame.payload);
}

void Courier::unreachable(ProcessId peer) { waiting_.erase(peer); }

bool Courier::take_local(Local& frame) {
  if (local_.empty()) return false;
  frame = std::move(local_.front());
  local_.pop_front();
  return true;
}

}  // namespace troupe::worker
