#include "core/process/dispatcher.h"

#include <fmt/format.h>

#include "core/base/output.h"
#include "core/executor/executors.h"
#include "core/process/core.h"
#include "core/process/group_port.h"
#include "core/process/log_printer.h"
#include "core/process/metrics_report.h"
#include "core/process/state_rows.h"

namespace troupe::worker {

/// DSP-1
void Dispatcher::on_broken(ProcessId peer, const ErrorPtr& why) {
  core_.warn("the ring with " + to_string(peer) + " is broken: " + why->message());
  if (peer != core_.daemon()) return end_peer(peer);
  if (!core_.is_driver()) {
    CoreLock lock(core_);
    return core_.host().executors().kill_process();
  }
  core_.begin_shutdown(make_error<NodeDiedError>("the ring with the node daemon is broken: " + why->message()));
}

void Dispatcher::end_peer(ProcessId peer) {
  CoreLock lock(core_);
  const wire::KillProcess kill{peer, "its ring with " + to_string(core_.self()) + " is damaged", DeathCause::kCrashed};
  core_.requests().send<wire::Empty>(
      core_.daemon(), wire::Method::kKillProcess, kill, [this](Result<wire::Empty> reply) {
        if (!reply.ok() && !core_.is_driver()) core_.host().executors().kill_process();  // the peer is a driver
      });
}

void Dispatcher::on_message(ProcessId from, const net::FrameHeader& header, ByteView payload) {
  CoreLock lock(core_);
  if (from == core_.daemon()) core_.frames().came_by_daemon(header.source);
  switch (wire::FrameKind(header.kind)) {
    case wire::FrameKind::kRequest: return on_request(header, payload);
    case wire::FrameKind::kResponse: return core_.requests().on_response(header, payload);
    case wire::FrameKind::kNotice: return on_notice(header, payload);
    case wire::FrameKind::kCall: return core_.host().on_call(from, header, payload);
    case wire::FrameKind::kReply: return core_.caller().on_reply(header, payload);
    case wire::FrameKind::kStreamItem: return core_.caller().on_stream_item(header, payload);
    case wire::FrameKind::kValueRequest: return core_.owner().on_value_request(header, payload);
    case wire::FrameKind::kValue: return core_.owner().on_value(header, payload);
    case wire::FrameKind::kControl: return on_control(header, payload);
  }
  core_.bad_frame("a frame", header.source);
}

void Dispatcher::on_control(const net::FrameHeader& header, ByteView payload) {
  switch (Control(header.arg0)) {
    case Control::kRelease: return core_.owner().on_release(header.source, payload);
    case Control::kBorrow: return core_.owner().on_borrow(header.source, payload);
    case Control::kBorrowed: return core_.owner().on_borrowed(header.source, payload);
    case Control::kHoldAck: return core_.owner().holds().acknowledged(payload);
    case Control::kCancel: return core_.host().cancel(header.source, header.arg1, header.arg2);
    case Control::kCancelObject: return core_.caller().on_cancel_object(header.source, header.arg2, payload);
    case Control::kRecalled: return core_.caller().on_recalled(header.source, payload);
    case Control::kStreamCredit: return core_.host().stream_credit(header.source, header.arg1, header.arg2);
    case Control::kStreamDrop: return core_.host().stream_dropped(header.source, header.arg1);
  }
  core_.bad_frame("a control frame", header.source);
}

void Dispatcher::on_request(const net::FrameHeader& header, ByteView payload) {
  net::FrameHeader answer;
  answer.kind = std::uint8_t(wire::FrameKind::kResponse);
  answer.token = header.token;
  const auto respond = [&](const auto& message) {
    core_.frames().send(header.source, answer, wire::encode_message(message));
  };
  if (wire::Method(header.arg0) == wire::Method::kQueryState) {
    wire::StateReply reply;
    if (Result<wire::StateQuery> query = wire::decode_message<wire::StateQuery>(payload); query.ok())
      describe_state(core_, *query, reply);
    return respond(reply);
  }
  if (wire::Method(header.arg0) == wire::Method::kFlushOutput) {
    core_.mutex().without([] { flush_output(); });  // the pipe may be full
    report_metrics(core_);
    return respond(wire::Empty{});
  }
  if (wire::Method(header.arg0) == wire::Method::kGroupWord) return group_word_arrived(core_, header, payload, true);
  const bool retire = wire::Method(header.arg0) == wire::Method::kProcessRetire;
  if (retire && !core_.is_driver() && core_.host().idle()) {
    respond(wire::Empty{});
    return core_.host().shutdown();
  }
  answer.arg0 = 1;
  if (retire) {
    const Error busy("it has work, or others hold what it owns");
    return respond(busy.record());
  }
  respond(InvalidArgumentError(fmt::format("a worker does not answer method {}", header.arg0)).record());
}

void Dispatcher::on_notice(const net::FrameHeader& header, ByteView payload) {
  auto with = [&]<class M>(std::type_identity<M>, auto&& use) {
    if (Result<M> message = wire::decode_message<M>(payload); message.ok()) use(*std::move(message));
    else core_.warn(message.error().message());
  };
  switch (wire::Method(header.arg0)) {
    case wire::Method::kLeaseGranted:
      return with(std::type_identity<wire::LeaseGranted>{}, [&](auto m) { core_.tasks().leases().on_granted(m); });
    case wire::Method::kLeaseRefused:
      return with(std::type_identity<wire::LeaseRefused>{}, [&](auto m) { core_.tasks().leases().on_refused(m); });
    case wire::Method::kProcessDied:
      return with(std::type_identity<wire::ProcessDied>{}, [&](auto m) { on_process_died(m); });
    case wire::Method::kNodeDied: return with(std::type_identity<wire::NodeDied>{}, [&](auto m) { on_node_died(m); });
    case wire::Method::kActorMoved: return with(std::type_identity<wire::ActorLocation>{}, [&](auto m) {
        core_.actors().on_moved(m);
        group_member_moved(core_, m);
      });
    case wire::Method::kArgumentsTaken:
      return with(std::type_identity<wire::ResolveActor>{}, [&](auto m) { core_.caller().untaken().taken(m.actor); });
    case wire::Method::kGroupWord: return group_word_arrived(core_, header, payload, false);
    case wire::Method::kConstructActor:
      return with(std::type_identity<wire::ConstructActor>{}, [&](auto m) { core_.host().construct(std::move(m)); });
    case wire::Method::kActorHandlesGone:
      return with(std::type_identity<wire::ResolveActor>{}, [&](auto m) { core_.host().handles_gone(m.actor); });
    case wire::Method::kEndActor:
      return with(std::type_identity<wire::EndActor>{}, [&](auto m) { core_.host().end_actor(m); });
    case wire::Method::kCongestion:
      return with(std::type_identity<wire::Congestion>{}, [&](auto m) { core_.frames().congestion(m); });
    case wire::Method::kLogLines:
      return with(std::type_identity<wire::LogLines>{}, [&](auto m) { print_log_lines(m); });
    case wire::Method::kWarning:
      return with(std::type_identity<wire::WarningText>{}, [&](auto m) { print_warning(m.text); });
    case wire::Method::kStoreTrim: return core_.store().trim();
    case wire::Method::kShutdown: return core_.is_driver() ? void() : core_.host().shutdown();
    default: return;
  }
}

void Dispatcher::on_process_died(const wire::ProcessDied& died) {
  if (core_.frames().is_dead(died.process) || died.process == core_.self()) return;
  net::BegunCalls begun;
  if (died.process.node == core_.self().node) {
    // What it had published comes first; the handler locks for itself.
    begun = core_.transport().begun(died.process);
    core_.mutex().without([&] { core_.transport().drain_and_close(died.process); });
  }
  for (auto& [source, number] : died.begun)  // of calls that went by the daemon
    if (source == core_.self()) begun.raise(number);
  for (auto& [source, number] : died.begun_beyond)
    if (source == core_.self()) begun.add(number);
  core_.frames().process_died(died.process);
  const ErrorPtr dead =
      make_error<WorkerCrashedError>("the process " + to_string(died.process) + " died: " + died.reason);
  core_.requests().fail_all([&](ProcessId to) { return to == died.process; }, dead);
  core_.owner().process_died(died.process, [&] {
    return make_error<OwnerDiedError>(fmt::format("the owner of the object, process {} (pid {}), died: {}",
                                                  to_string(died.process), died.pid, died.reason));
  });
  core_.caller().process_died(died, begun);
  core_.host().source_died(died.process);
  group_process_died(core_, died.process, died.reason);
  core_.frames().notice(core_.daemon(), wire::Method::kProcessDiedAck, wire::ConnectRequest{died.process});
}

void Dispatcher::on_node_died(const wire::NodeDied& died) {
  ErrorRecord record;
  record.code = ErrorCode::kNodeDied;
  record.message = fmt::format("node {} died: {}", died.node_id, died.reason);
  record.context.node = died.node_id;
  const ErrorPtr error = Error::make(std::move(record));
  core_.frames().node_died(died.node);  // also for what arrives from now on
  core_.requests().fail_all([&](ProcessId to) { return to.node == died.node && to != kHead; }, error);
  core_.owner().buffers().node_died(died.node, error);
  core_.owner().node_died(died.node, [&] {
    return make_error<OwnerDiedError>("the owner of the object was on a node that died: " + error->message());
  });
  core_.caller().node_died(died.node, error);
  core_.host().node_died(died.node);
  group_node_died(core_, died.node, error->message());
}

}  // namespace troupe::worker
