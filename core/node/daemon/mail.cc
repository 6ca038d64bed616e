#include "core/node/daemon/mail.h"

#include "core/base/log.h"

namespace troupe::node {
namespace {

constexpr std::size_t kToldMax = 100'000;

net::FrameHeader make_header(wire::FrameKind kind, ProcessId from, ProcessId to, std::uint64_t token, std::uint64_t arg0) {
  net::FrameHeader header;
  header.kind = static_cast<std::uint8_t>(kind);
  header.source = from;
  header.destination = to;
  header.token = token;
  header.arg0 = arg0;
  return header;
}

bool is(const net::FrameHeader& header, wire::FrameKind kind) { return header.kind == static_cast<std::uint8_t>(kind); }

}  // namespace

void Mail::send_notice(ProcessId to, wire::Method method, const Bytes& payload) {
  const net::FrameHeader header = make_header(wire::FrameKind::kNotice, self(), to, 0, static_cast<std::uint64_t>(method));
  (void)deliver(header, payload);
}

void Mail::send_response(const net::FrameHeader& request, bool failed, const Bytes& payload) {
  const net::FrameHeader header = make_header(wire::FrameKind::kResponse, request.destination, request.source, request.token, failed ? 1 : 0);
  if (request.source == self()) on_response(header, payload);
  else (void)deliver(header, payload);
}

void Mail::send_request(ProcessId to, wire::Method method, const Bytes& payload, Duration timeout, Done done) {
  const std::uint64_t token = next_token_++;
  Loop::TimerId timer = loop_.after(timeout, [this, token, to] {
    finish(token, make_error<GetTimeoutError>("no answer from " + to_string(to)));
  });
  pending_.emplace(token, Pending{to, std::move(done), timer});
  const net::FrameHeader header = make_header(wire::FrameKind::kRequest, self(), to, token, static_cast<std::uint64_t>(method));
  if (!deliver(header, payload)) finish(token, make_error<WorkerCrashedError>("nobody is at " + to_string(to)));
}

void Mail::finish(std::uint64_t token, Result<Bytes> result) {
  auto it = pending_.find(token);
  if (it == pending_.end()) return;
  Pending pending = std::move(it->second);
  pending_.erase(it);
  loop_.cancel(pending.timer);
  pending.done(std::move(result));
}

void Mail::on_response(const net::FrameHeader& header, ByteView payload) {
  if (header.arg0 == 0) {
    finish(header.token, Bytes(payload.begin(), payload.end()));
    return;
  }
  Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(payload);
  finish(header.token, record.ok() ? Result<Bytes>(Error::make(std::move(*record))) : Result<Bytes>(record.error_ptr()));
}

bool Mail::deliver(const net::FrameHeader& header, ByteView payload) {
  const ProcessId to = header.destination;
  if (to.node != table_.node()) return links_.send(to.node, header, payload);
  NodeProcess* process = table_.find(to);
  if (!process || process->state != NodeProcess::State::kAlive) return false;
  if (!endpoint_.send(to, header, payload)) return false;
  if (is(header, wire::FrameKind::kCall)) {
    process->calls.begun(endpoint_.begun(to));
    process->calls.forwarded(header.source, header.token);
  }
  return true;
}

bool Mail::route(ProcessId from_ring, const net::FrameHeader& header, ByteView payload) {
  if (from_ring.node == table_.node() && from_ring.serial != 0 && header.source != from_ring) {
    write_log(LogLevel::kWarn, "{} sent a frame in the name of {}: dropped", to_string(from_ring), to_string(header.source));
    return false;
  }
  if (header.destination == self()) return true;
  ++forwarded_;
  if (!deliver(header, payload)) refuse(header);
  return false;
}

void Mail::refuse(const net::FrameHeader& header) {
  if (header.destination == kHead) {  // the links could keep no more for it
    write_log(LogLevel::kWarn, "the head is not to be reached and too much waits for it: a frame of {} is dropped", to_string(header.source));
    if (is(header, wire::FrameKind::kRequest))
      fail(header, make_record(ErrorCode::kPendingCallsLimit, "the head is not to be reached now, and too much waits for it; try again later"));
    return;
  }
  const wire::ProcessDied* death = table_.death(header.destination);
  if (is(header, wire::FrameKind::kRequest)) {
    fail(header, death ? death_error(*death) : make_record(ErrorCode::kWorkerCrashed, "there is no process " + to_string(header.destination)));
  }
  const bool is_answer = is(header, wire::FrameKind::kResponse) || is(header, wire::FrameKind::kNotice);
  if (is_answer) return;
  if (!death && table_.find(header.destination)) return;  // it is dying: what it had begun is told with the news of it, to all
  if (told_.size() >= kToldMax) told_.clear();
  if (!told_.insert({header.source, header.destination}).second) return;
  if (header.destination.node != table_.node()) {
    notice(header.source, wire::Method::kNodeDied, wire::NodeDied{header.destination.node, "", "the node is not reachable"});
    return;
  }
  wire::ProcessDied unknown;
  unknown.process = header.destination;
  unknown.wait_status = -1;
  unknown.reason = "there is no such process";
  notice(header.source, wire::Method::kProcessDied, death ? *death : unknown);
}

void Mail::process_lost(ProcessId process) {
  std::vector<std::uint64_t> lost;
  for (const auto& [token, pending] : pending_) if (pending.to == process) lost.push_back(token);
  for (std::uint64_t token : lost) finish(token, make_error<WorkerCrashedError>(to_string(process) + " died"));
}

void Mail::node_lost(std::uint32_t node) {
  std::vector<std::uint64_t> lost;
  for (const auto& [token, pending] : pending_) if (pending.to.node == node) lost.push_back(token);
  for (std::uint64_t token : lost) finish(token, make_error<NodeDiedError>("node " + std::to_string(node) + " died"));
}

}  // namespace troupe::node
