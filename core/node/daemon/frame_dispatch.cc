#include "core/node/daemon/frame_dispatch.h"

#include "core/base/log.h"
#include "core/node/daemon/admission/frame_access.h"
#include "core/wire/kept.h"

namespace troupe::node {
namespace {

using wire::Method;
constexpr Duration kKillWait = std::chrono::seconds(5);

Method method_of(const net::FrameHeader& header) { return static_cast<Method>(header.arg0); }
bool is_asking(const net::FrameHeader& header) {
  return is(header, wire::FrameKind::kRequest) || is(header, wire::FrameKind::kNotice);
}

}  // namespace

void FrameDispatch::on_frame(ProcessId from, const net::FrameHeader& header, ByteView payload) {
  const bool local = from.node == parts_.table.node();
  if (!local && !sent_by_its_node(header.source, from.node))
    return write_log(LogLevel::kWarn, "node {} sent a frame in the name of {}: dropped", from.node,
                     to_string(header.source));
  if (local && header.destination == kHead) {
    if (is_asking(header) && !may_ask_head(method_of(header))) return refuse(header);
    read_actor_exit(header, payload);
    keep_what_is_named(header, payload);
  }
  if (parts_.mail.route(from, header, payload)) handle(header, payload);
}

/// Its sender may not say that (frame_access.h).
void FrameDispatch::refuse(const net::FrameHeader& header) {
  write_log(LogLevel::kWarn, "{} may not send method {} to {}: refused", to_string(header.source), header.arg0,
            to_string(header.destination));
  if (is(header, wire::FrameKind::kRequest))
    parts_.mail.fail(header,
                     make_record(ErrorCode::kUnauthenticated,
                                 to_string(header.source) + " may not ask for method " + std::to_string(header.arg0)));
}

/// Frames for others that the daemon reads: this one frees what the actor held, and makes the end of its process an
/// expected one.
void FrameDispatch::read_actor_exit(const net::FrameHeader& header, ByteView payload) {
  if (!is(header, wire::FrameKind::kNotice) || method_of(header) != Method::kActorExited) return;
  Result<wire::ActorExited> exited = wire::decode_message<wire::ActorExited>(payload);
  if (exited.ok()) parts_.starts.exited(header.source, *exited);
}

/// KR-1
void FrameDispatch::keep_what_is_named(const net::FrameHeader& header, ByteView payload) {
  auto keep = [&]<class M>(const Result<M>& message) {
    if (message.ok()) parts_.keeper.pass_on(wire::name_of(*message), wire::buffers_of(*message));
  };
  if (is(header, wire::FrameKind::kRequest) && method_of(header) == Method::kCreateActor)
    keep(wire::decode_message<wire::ActorSpec>(payload));
  if (is(header, wire::FrameKind::kNotice) && method_of(header) == Method::kCheckpoint)
    keep(wire::decode_message<wire::Checkpoint>(payload));
}

void FrameDispatch::handle(const net::FrameHeader& header, ByteView payload) {
  if (is_asking(header) && !may_ask_daemon(method_of(header), sender_of(header.source, parts_.table.node())))
    return refuse(header);
  switch (static_cast<wire::FrameKind>(header.kind)) {
    case wire::FrameKind::kResponse: return parts_.mail.on_response(header, payload);
    case wire::FrameKind::kRequest: return handle_request(header, payload);
    case wire::FrameKind::kNotice: return handle_notice(header, payload);
    default:
      write_log(LogLevel::kWarn, "a frame of kind {} from {} for the daemon", header.kind, to_string(header.source));
  }
}

template <class M>
void FrameDispatch::with(const net::FrameHeader& header, ByteView payload, const std::function<void(M&)>& then) {
  Result<M> message = wire::decode_message<M>(payload);
  if (message.ok()) return then(*message);
  write_log(LogLevel::kWarn, "method {} from {}: {}", header.arg0, to_string(header.source), message.error().message());
  if (is(header, wire::FrameKind::kRequest)) parts_.mail.fail(header, message.error().record());
}

void FrameDispatch::handle_request(const net::FrameHeader& header, ByteView payload) {
  Parts& p = parts_;
  switch (method_of(header)) {
    case Method::kConnect:
      return with<wire::ConnectRequest>(header, payload, [&](auto& m) { p.pairs.connect(header, m); });
    case Method::kLeaseRenew:
      return with<wire::LeaseRenew>(header, payload, [&](auto& m) {
        p.mail.respond(header, wire::LeaseRenewed{p.leases.queue().renew(m.lease_id, header.source, p.loop.now())});
        p.leases.apply();
      });
    case Method::kLightHost:
      return with<wire::LightHostRequest>(header, payload, [&](auto& m) { p.light_hosts.request(header, m); });
    case Method::kStoreLease:
      return with<wire::StoreLeaseRequest>(header, payload, [&](auto& m) { p.store.lease(header, m); });
    case Method::kStoreAllocate:
      return with<wire::StoreAllocateRequest>(header, payload, [&](auto& m) { p.store.allocate(header, m); });
    case Method::kStoreFetch:
      return with<wire::StoreFetchRequest>(header, payload, [&](auto& m) { p.store.fetch(header, m); });
    case Method::kStoreHold:
      return with<wire::StoreHoldRequest>(header, payload, [&](auto& m) { p.store.hold(header, m); });
    case Method::kStoreUsage: return p.mail.respond(header, p.store.usage());
    case Method::kKeep: return with<wire::KeepRequest>(header, payload, [&](auto& m) { p.keeper.keep(header, m); });
    case Method::kKillProcess:
      return with<wire::KillProcess>(header, payload, [&](auto& m) { kill_request(header, m); });
    case Method::kQueryState:
      return with<wire::StateQuery>(header, payload, [&](auto& m) { p.queries.answer(header, m); });
    case Method::kPing: return p.mail.respond(header, wire::Empty{});
    case Method::kJobOutput:
      return with<wire::JobOutput>(header, payload, [&](auto& m) { p.output.hand_over(header, m); });
    case Method::kRankDoor: return p.mail.respond(header, p.ranks.state());
    case Method::kJobImage:
      return with<wire::JobImageRequest>(header, payload, [&](auto& m) { p.jobs.answer_image(header, m, node_id_); });
    default:
      p.mail.fail(header,
                  make_record(ErrorCode::kInvalidArgument, "the daemon has no method " + std::to_string(header.arg0)));
  }
}

void FrameDispatch::handle_notice(const net::FrameHeader& header, ByteView payload) {
  const bool known = handle_lease_notice(header, payload) || handle_store_notice(header, payload) ||
                     handle_process_notice(header, payload) || handle_head_notice(header, payload);
  if (!known) write_log(LogLevel::kWarn, "method {} from {} for the daemon", header.arg0, to_string(header.source));
  parts_.leases.apply();
}

bool FrameDispatch::handle_lease_notice(const net::FrameHeader& header, ByteView payload) {
  sched::LeaseQueue& queue = parts_.leases.queue();
  const Loop::TimePoint now = parts_.loop.now();
  switch (method_of(header)) {
    case Method::kLeaseWanted:
      with<wire::LeaseWanted>(header, payload, [&](auto& m) {
        m.requester = header.source;
        m.hops = 0;
        queue.wanted(m, now);
      });
      return true;
    case Method::kForwardLease:
      with<wire::LeaseWanted>(header, payload, [&](auto& m) { parts_.forwarded.wanted(m); });
      return true;
    case Method::kLeaseCounted:
      with<wire::LeaseCounted>(header, payload, [&](auto& m) { queue.counted(m, now); });
      return true;
    case Method::kLeaseReturned:
      with<wire::LeaseReturned>(header, payload, [&](auto& m) { queue.returned(m.lease_id, now); });
      return true;
    case Method::kWorkerBlocked:
      with<wire::WorkerBlocked>(header, payload, [&](auto& m) {
        queue.worker_blocked(header.source, m.lease_id, m.blocked, now);
      });
      return true;
    default: return false;
  }
}

bool FrameDispatch::handle_store_notice(const net::FrameHeader& header, ByteView payload) {
  StoreService& store = parts_.store;
  switch (method_of(header)) {
    case Method::kStoreFree:
      with<wire::StoreFree>(header, payload, [&](auto& m) { store.free(header.source, m); });
      return true;
    case Method::kStoreWithdraw:
      with<wire::StoreWithdraw>(header, payload, [&](auto& m) { store.withdraw(header.source, m); });
      return true;
    case Method::kStoreUnhold:
      with<wire::StoreHoldRequest>(header, payload, [&](auto& m) { store.unhold(m); });
      return true;
    case Method::kCopiesVoid:
      with<wire::StoreHoldRequest>(header, payload, [&](auto& m) { store.copies_void(m); });
      return true;
    default: return false;
  }
}

bool FrameDispatch::handle_process_notice(const net::FrameHeader& header, ByteView payload) {
  switch (method_of(header)) {
    case Method::kExpectRanks:
      with<wire::ExpectRanks>(header, payload, [&](auto& m) { parts_.ranks.expect(header.source, m); });
      return true;
    case Method::kRankLeft:
      with<wire::RankLeft>(header, payload, [&](auto& m) { parts_.ranks.left(header.source, m); });
      return true;
    case Method::kProcessDiedAck:
      with<wire::ConnectRequest>(header, payload, [&](auto& m) { parts_.deaths.acked(m.peer, header.source); });
      return true;
    case Method::kProcessDied:
      with<wire::ProcessDied>(header, payload, [&](auto& m) {
        if (parts_.deaths.on_remote(m)) parts_.leases.queue().process_died(m.process, parts_.loop.now());
      });
      return true;
    case Method::kCongestion:
      with<wire::Congestion>(header, payload, [&](auto& m) {
        if (m.process.node == header.source.node) parts_.mail.congestion(m);
      });
      return true;
    case Method::kJobFinished:
      with<wire::JobFinished>(header, payload, [&](auto& m) {
        NodeProcess* driver = parts_.table.find(header.source);
        if (Job* job = driver ? parts_.jobs.find(driver->job) : nullptr; job && job->driver == header.source)
          job->exit_code = m.exit_code;
      });
      return true;
    default: return false;
  }
}

bool FrameDispatch::handle_head_notice(const net::FrameHeader& header, ByteView payload) {
  switch (method_of(header)) {
    case Method::kNodeDied:
      with<wire::NodeDied>(header, payload, [&](auto& m) { parts_.membership.on_node_died(m); });
      return true;
    case Method::kClusterView:
      with<wire::ClusterView>(header, payload, [&](auto& m) {
        parts_.links.apply_view(m);
        parts_.leases.queue().view_delta(m, parts_.loop.now());
      });
      return true;
    case Method::kStartActor:
      with<wire::StartActor>(header, payload, [&](auto& m) { parts_.starts.start(std::move(m)); });
      return true;
    case Method::kKeepNoMore:
      with<wire::KeptName>(header, payload, [&](auto& m) { parts_.keeper.no_more(m); });
      return true;
    case Method::kJobEnded: with<wire::JobEnded>(header, payload, [&](auto& m) { parts_.cleanup.end(m); }); return true;
    case Method::kKillActorProcess:
      with<wire::KillProcess>(header, payload, [&](auto& m) { kill_actor(m); });
      return true;
    case Method::kShutdown: stop_("stopped by the head"); return true;
    default: return false;
  }
}

void FrameDispatch::kill_request(const net::FrameHeader& request, const wire::KillProcess& wanted) {
  if (wanted.process.node != parts_.table.node()) {
    parts_.mail.request(daemon_of(wanted.process.node), Method::kKillProcess, wanted, kKillWait,
                        [this, request](Result<Messenger::Bytes> reply) {
                          if (reply.ok()) parts_.mail.respond(request, wire::Empty{});
                          else parts_.mail.fail(request, reply.error().record());
                        });
    return;
  }
  NodeProcess* process = parts_.table.find(wanted.process);
  if (process && process->role != wire::Role::kWorker)
    return parts_.mail.fail(request, make_record(ErrorCode::kInvalidArgument,
                                                 to_string(wanted.process) + " is no worker: only those are ended"));
  if (process) parts_.ends.kill(*process, {wanted.cause, wanted.reason});
  parts_.mail.respond(request, wire::Empty{});  // a dead one is what was asked for
}

void FrameDispatch::kill_actor(const wire::KillProcess& wanted) {
  NodeProcess* process =
      wanted.process.serial == 0 ? parts_.starts.dropped(wanted.actor) : parts_.table.find(wanted.process);
  if (process) parts_.ends.kill(*process, {wanted.cause, wanted.reason});
}

}  // namespace troupe::node
