#include "core/node/daemon/mail/mail.h"

#include <map>

#include "core/base/log.h"

namespace troupe::node {
namespace {

constexpr std::size_t kToldMax = 100'000;
/// between two looks whether a clogged process takes again
constexpr Duration kCloggedLook = std::chrono::milliseconds(20);

net::FrameHeader make_header(wire::FrameKind kind, ProcessId from, ProcessId to, std::uint64_t token,
                             std::uint64_t arg0) {
  net::FrameHeader header;
  header.kind = static_cast<std::uint8_t>(kind);
  header.source = from;
  header.destination = to;
  header.token = token;
  header.arg0 = arg0;
  return header;
}

}  // namespace

void Mail::send_notice(ProcessId to, wire::Method method, const Bytes& payload) {
  const net::FrameHeader header =
      make_header(wire::FrameKind::kNotice, self(), to, 0, static_cast<std::uint64_t>(method));
  (void)deliver(header, payload);
}

void Mail::send_response(const net::FrameHeader& request, bool failed, const Bytes& payload) {
  const net::FrameHeader header =
      make_header(wire::FrameKind::kResponse, request.destination, request.source, request.token, failed ? 1 : 0);
  if (request.source == self()) on_response(header, payload);
  else (void)deliver(header, payload);
}

void Mail::send_request(ProcessId to, wire::Method method, const Bytes& payload, Duration timeout, Done done) {
  const std::uint64_t token = next_token_++;
  Loop::TimerId timer = loop_.after(timeout, [this, token, to] {
    finish(token, make_error<GetTimeoutError>("no answer from " + to_string(to)));
  });
  pending_.emplace(token, Pending{to, std::move(done), timer});
  const net::FrameHeader header =
      make_header(wire::FrameKind::kRequest, self(), to, token, static_cast<std::uint64_t>(method));
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
  finish(header.token,
         record.ok() ? Result<Bytes>(Error::make(std::move(*record))) : Result<Bytes>(record.error_ptr()));
}

bool Mail::deliver(const net::FrameHeader& header, ByteView payload) {
  const ProcessId to = header.destination;
  if (to.node != table_.node()) return links_.send(to.node, header, payload);
  NodeProcess* process = table_.find(to);
  if (!process || process->state != NodeProcess::State::kAlive) return false;
  if (!endpoint_.send(to, header, payload)) return false;
  if (is(header, wire::FrameKind::kCall)) {
    process->calls.begun(endpoint_.begun_calls(to));
    process->calls.forwarded(header.source, header.token);
  }
  return true;
}

bool Mail::route(ProcessId from_ring, const net::FrameHeader& header, ByteView payload) {
  if (from_ring.node == table_.node() && from_ring.serial != 0 && header.source != from_ring) {
    write_log(LogLevel::kWarn, "{} sent a frame in the name of {}: dropped", to_string(from_ring),
              to_string(header.source));
    return false;
  }
  if (header.destination == self()) return true;
  ++forwarded_;
  if (deliver(header, payload)) hold_back(from_ring, header);
  else refuse(header);
  return false;
}

// ------------------------------------------------------------------------------------------------------- bounds (ML-4)

void Mail::hold_back(ProcessId from_ring, const net::FrameHeader& header) {
  const ProcessId to = header.destination, sender = header.source;
  const bool to_here = to.node == table_.node(), from_here = sender.serial != 0 && from_ring == sender;
  ProcessId cause = to;
  if (to_here) {
    const bool was_any = congestion_.any();
    if (!congestion_.waits(to, endpoint_.backlog(to))) return;
    if (!was_any) loop_.after(kCloggedLook, [this] { look_at_clogged(); });
  } else if (from_here && links_.is_full(to.node)) {
    cause = daemon_of(to.node);
  } else if (!far_congestion_.is_clogged(to)) {
    return;
  }
  const bool is_forwarded = !from_here && to_here && sender.node != table_.node() && sender != kHead;
  if (!from_here && !is_forwarded) return;
  const ProcessId listener = from_here ? sender : daemon_of(sender.node);
  Congestion& congestion = to_here ? congestion_ : far_congestion_;
  if (congestion.tell(cause, listener)) notice(listener, wire::Method::kCongestion, wire::Congestion{cause, true});
  const std::size_t bytes = sizeof header + header.payload_size;
  if (from_here && held_.sent_all_the_same(sender, cause, bytes)) endpoint_.pause(sender);
}

void Mail::tell_open(ProcessId process, const std::vector<ProcessId>& told) {
  for (ProcessId listener : told) notice(listener, wire::Method::kCongestion, wire::Congestion{process, false});
  let_go(held_.release(process));
}

void Mail::look_at_clogged() {
  for (const Congestion::Opened& opened :
       congestion_.look([this](ProcessId process) { return endpoint_.backlog(process); }))
    tell_open(opened.process, opened.told);
  if (congestion_.any()) loop_.after(kCloggedLook, [this] { look_at_clogged(); });
}

void Mail::let_go(const HeldSenders::Senders& senders) {
  for (ProcessId sender : senders) endpoint_.resume(sender);
}

void Mail::room(std::uint32_t node) { tell_open(daemon_of(node), far_congestion_.open(daemon_of(node))); }

void Mail::congestion(const wire::Congestion& news) {
  if (news.clogged) far_congestion_.mark(news.process);
  else tell_open(news.process, far_congestion_.open(news.process));
}

bool Mail::is_clogged(ProcessId process) const {
  if (process.node == table_.node()) return endpoint_.backlog(process) > Congestion::kHigh;
  return far_congestion_.is_clogged(process) || links_.is_full(process.node);
}

void Mail::never_sent(std::uint32_t node, const std::vector<net::FrameHeader>& frames) {
  const std::string who = node == 0 ? "the head that this was for" : "node " + std::to_string(node);
  std::map<std::pair<ProcessId, ProcessId>, std::uint64_t> first_calls;
  for (const net::FrameHeader& header : frames) {
    if (is(header, wire::FrameKind::kCall)) first_calls.try_emplace({header.source, header.destination}, header.token);
    if (is(header, wire::FrameKind::kRequest))
      fail(header, make_record(ErrorCode::kNodeDied, who + " died before this was sent there"));
  }
  for (const auto& [pair, token] : first_calls) {
    wire::ProcessDied died;
    died.process = pair.second;
    died.wait_status = -1;
    died.cause = DeathCause::kNodeDied;
    died.reason = who + " died";
    died.begun.emplace_back(pair.first, token - 1);  // what came before may have run; from here on it has not
    notice(pair.first, wire::Method::kProcessDied, died);
  }
}

void Mail::refuse(const net::FrameHeader& header) {
  const wire::ProcessDied* death = table_.death(header.destination);
  if (is(header, wire::FrameKind::kRequest)) {
    fail(header, death
                     ? death_error(*death)
                     : make_record(ErrorCode::kWorkerCrashed, "there is no process " + to_string(header.destination)));
  }
  const bool is_answer = is(header, wire::FrameKind::kResponse) || is(header, wire::FrameKind::kNotice);
  if (is_answer) return;
  // it is dying: what it had begun is told with the news of it, to all
  if (!death && table_.find(header.destination)) return;
  if (told_.empty()) loop_.after(kToldFor, [this] { told_.clear(); });
  if (told_.size() >= kToldMax) told_.clear();
  if (!told_.insert({header.source, header.destination}).second) return;
  if (header.destination.node != table_.node()) {
    notice(header.source, wire::Method::kNodeDied,
           wire::NodeDied{header.destination.node, "", "the node was declared dead"});
    return;
  }
  wire::ProcessDied unknown;
  unknown.process = header.destination;
  unknown.wait_status = -1;
  unknown.reason = "there is no such process";
  notice(header.source, wire::Method::kProcessDied, death ? *death : unknown);
}

void Mail::process_lost(ProcessId process) {
  (void)far_congestion_.open(process);  // of its death all hear
  let_go(held_.forget(process));
  std::vector<std::uint64_t> lost;
  for (const auto& [token, pending] : pending_) if (pending.to == process) lost.push_back(token);
  for (std::uint64_t token : lost) finish(token, make_error<WorkerCrashedError>(to_string(process) + " died"));
}

void Mail::node_lost(std::uint32_t node) {
  for (ProcessId process : far_congestion_.of_node(node)) {
    (void)far_congestion_.open(process);
    let_go(held_.release(process));
  }
  room(node);
  std::vector<std::uint64_t> lost;
  for (const auto& [token, pending] : pending_) if (pending.to.node == node) lost.push_back(token);
  for (std::uint64_t token : lost) finish(token, make_error<NodeDiedError>("node " + std::to_string(node) + " died"));
}

}  // namespace troupe::node
