#include "core/worker/core.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/worker/actor_clients.h"
#include "core/worker/buffers.h"
#include "core/worker/host.h"
#include "core/worker/log_printer.h"
#include "core/worker/objects.h"
#include "core/worker/outlet.h"
#include "core/worker/store_link.h"
#include "core/worker/streams.h"
#include "core/worker/task_submitter.h"
#include "core/worker/transit.h"

namespace troupe::worker {

// ----------------------------------------------------------------------------------------------------------------- messages

void Core::on_broken(ProcessId peer, const ErrorPtr& why) { warn("the ring with " + to_string(peer) + " is broken: " + why->message()); }

void Core::on_message(ProcessId from, const net::FrameHeader& header, ByteView payload) {
  CoreLock lock(*this);
  FrameReader in(payload);
  if (from == daemon()) courier_.came_by_daemon(header.source);
  switch (wire::FrameKind(header.kind)) {
    case wire::FrameKind::kRequest: return on_request(header, payload);
    case wire::FrameKind::kResponse: return requests_.on_response(header, payload);
    case wire::FrameKind::kNotice: return on_notice(header, payload);
    case wire::FrameKind::kCall: return host_->on_call(from, header, payload);
    case wire::FrameKind::kReply: {
      const ReplyHead head = in.get<ReplyHead>();
      PendingCall* call = in.failed() ? nullptr : calls_->find(head.call_id);
      if (in.failed()) return;
      if (!call || call->state != PendingCall::State::kSent || call->target != header.source) return transit_->discard(head, in, header.source);
      return call->kind == CallKind::kTask ? tasks_->on_reply(*call, head, in, header.source) : actors_->on_reply(*call, head, in, header.source);
    }
    case wire::FrameKind::kStreamItem: {
      const ReplyHead head = in.get<ReplyHead>();
      const std::uint64_t arrival = transit_->begin_arrival(header.source, head.hold);
      detail::Value value = transit_->read(in, arrival);
      transit_->end_arrival(arrival);
      PendingCall* call = in.failed() ? nullptr : calls_->find(head.call_id);
      if (call && call->stream) call->stream->item(head.index, std::move(value));
      return;
    }
    case wire::FrameKind::kValueRequest: return transit_->on_value_request(header, payload);
    case wire::FrameKind::kValue: return transit_->on_value(header, payload);
    case wire::FrameKind::kControl: return on_control(header, payload);
  }
}

void Core::on_control(const net::FrameHeader& header, ByteView payload) {
  FrameReader in(payload);
  switch (Control(header.arg0)) {
    case Control::kRelease:
      while (in.left() >= sizeof(ObjectId) + 8) {
        const ObjectId id = in.get<ObjectId>();
        objects_->released(header.source, id, std::uint32_t(in.get<std::uint64_t>()));
      }
      return;
    case Control::kBorrow:
      while (in.left() >= sizeof(ObjectId)) {
        const ObjectId id = in.get<ObjectId>();
        if (ObjectEntryPtr entry = objects_->find_owned(id)) objects_->grant(*entry, header.source);
        courier_.control(header.source, Control::kBorrowed, 0, 0, std::as_bytes(std::span(&id, 1)));
      }
      return;
    case Control::kBorrowed:
      if (const ObjectId id = in.get<ObjectId>(); !in.failed()) transit_->borrowed(id);
      return;
    case Control::kHoldAck: return transit_->acknowledged(payload);
    case Control::kCancel: return host_->cancel(header.source, header.arg1, header.arg2);
    case Control::kCancelObject:
      if (const ObjectId id = in.get<ObjectId>(); !in.failed())
        if (ObjectEntryPtr entry = objects_->find_owned(id)) cancel_entry(*entry, {(header.arg2 & kCancelForce) != 0, (header.arg2 & kCancelRecursive) != 0});
      return;
    case Control::kRecalled:
      while (in.left() >= 8)
        if (PendingCall* call = calls_->find(in.get<std::uint64_t>()); call && call->kind == CallKind::kTask) tasks_->on_recalled(*call);
      return;
    case Control::kStreamCredit: return host_->stream_credit(header.source, header.arg1, header.arg2);
    case Control::kStreamDrop: return host_->stream_dropped(header.source, header.arg1);
  }
}

void Core::cancel_entry(ObjectEntry& entry, const CancelOptions& options) {
  if (!entry.owned) {
    const std::uint64_t flags = (options.force ? kCancelForce : 0) | (options.recursive ? kCancelRecursive : 0);
    return courier_.control(entry.id.maker, Control::kCancelObject, 0, flags, std::as_bytes(std::span(&entry.id, 1)));
  }
  PendingCall* call = entry.producer;
  if (!call) return;
  if (call->kind == CallKind::kTask) tasks_->cancel(*call, options);
  else actors_->cancel(*call, options);
}

void Core::on_request(const net::FrameHeader& header, ByteView payload) {
  net::FrameHeader answer;
  answer.kind = std::uint8_t(wire::FrameKind::kResponse);
  answer.token = header.token;
  if (wire::Method(header.arg0) == wire::Method::kQueryState) {
    wire::StateReply reply;
    if (Result<wire::StateQuery> query = wire::decode_message<wire::StateQuery>(payload); query.ok()) describe_state(*query, reply);
    return courier_.send(header.source, answer, wire::encode_message(reply));
  }
  if (wire::Method(header.arg0) == wire::Method::kGroupWord) return on_group_word(header, payload, true);
  answer.arg0 = 1;
  courier_.send(header.source, answer, wire::encode_message(InvalidArgumentError(fmt::format("a worker does not answer method {}", header.arg0)).record()));
}

void Core::on_notice(const net::FrameHeader& header, ByteView payload) {
  auto with = [&]<class M>(std::type_identity<M>, auto&& use) {
    if (Result<M> message = wire::decode_message<M>(payload); message.ok()) use(*std::move(message));
    else warn(message.error().message());
  };
  switch (wire::Method(header.arg0)) {
    case wire::Method::kLeaseGranted: return with(std::type_identity<wire::LeaseGranted>{}, [&](auto m) { tasks_->on_granted(m); });
    case wire::Method::kLeaseRefused: return with(std::type_identity<wire::LeaseRefused>{}, [&](auto m) { tasks_->on_refused(m); });
    case wire::Method::kProcessDied: return with(std::type_identity<wire::ProcessDied>{}, [&](auto m) { on_process_died(m); });
    case wire::Method::kNodeDied: return with(std::type_identity<wire::NodeDied>{}, [&](auto m) { on_node_died(m); });
    case wire::Method::kActorMoved: return with(std::type_identity<wire::ActorLocation>{}, [&](auto m) {
        actors_->on_moved(m);
        group_member_moved(m);
      });
    case wire::Method::kGroupWord: return on_group_word(header, payload, false);
    case wire::Method::kConstructActor: return with(std::type_identity<wire::ConstructActor>{}, [&](auto m) { host_->construct(std::move(m)); });
    case wire::Method::kActorHandlesGone: return with(std::type_identity<wire::ResolveActor>{}, [&](auto m) { host_->handles_gone(m.actor); });
    case wire::Method::kEndActor: return with(std::type_identity<wire::EndActor>{}, [&](auto m) { host_->end_actor(m); });
    case wire::Method::kLogLines: return with(std::type_identity<wire::LogLines>{}, [&](auto m) { print_log_lines(m); });
    case wire::Method::kWarning: return with(std::type_identity<wire::WarningText>{}, [&](auto m) { print_warning(m.text); });
    case wire::Method::kShutdown:
    case wire::Method::kJobEnding:
    case wire::Method::kProcessRetire:
      if (is_driver_) return;
      if (wire::Method(header.arg0) == wire::Method::kProcessRetire && !host_->idle()) return;
      return host_->shutdown();
    default: return;
  }
}

void Core::on_process_died(const wire::ProcessDied& died) {
  if (courier_.is_dead(died.process) || died.process == self()) return;
  std::uint64_t begun = 0;
  if (died.process.node == self().node) {
    // What it had published comes first; the handler locks for itself.
    begun = outlet_ ? outlet_->begun(died.process) : endpoint_->begun(died.process);
    without_lock([&] { outlet_ ? outlet_->drain_and_close(died.process) : void(endpoint_->drain_and_close(died.process, *this)); });
  }
  for (auto& [source, number] : died.begun)  // of calls that went by the daemon
    if (source == self()) begun = std::max(begun, number);
  courier_.process_died(died.process);
  const ErrorPtr dead = make_error<WorkerCrashedError>("the process " + to_string(died.process) + " died: " + died.reason);
  requests_.fail_all([&](ProcessId to) { return to == died.process; }, dead);
  transit_->process_died(died.process);
  objects_->process_died(died.process, [&] {
    return make_error<OwnerDiedError>(fmt::format("the owner of the object, process {} (pid {}), died: {}", to_string(died.process), died.pid, died.reason));
  });
  tasks_->process_died(died, begun);
  actors_->process_died(died, begun);
  host_->source_died(died.process);
  group_process_died(died.process, died.reason);
  courier_.notice(daemon(), wire::Method::kProcessDiedAck, wire::ConnectRequest{died.process});
}

void Core::on_node_died(const wire::NodeDied& died) {
  ErrorRecord record;
  record.code = ErrorCode::kNodeDied;
  record.message = fmt::format("node {} died: {}", died.node_id, died.reason);
  record.context.node = died.node_id;
  const ErrorPtr error = Error::make(std::move(record));
  courier_.node_died(died.node);  // also for what arrives from now on
  requests_.fail_all([&](ProcessId to) { return to.node == died.node && to != kHead; }, error);
  transit_->node_died(died.node);
  objects_->node_died(died.node, [&] { return make_error<OwnerDiedError>("the owner of the object was on a node that died: " + error->message()); });
  tasks_->node_died(died.node, error);
  actors_->node_died(died.node, error);
  group_node_died(died.node, error->message());
}

// -------------------------------------------------------------------------------------------------------------------- state

void Core::describe_state(const wire::StateQuery& query, wire::StateReply& reply) {
  if (query.kind == wire::StateKind::kTasks) {
    host_->describe_tasks(reply);
    calls_->for_each([&](PendingCall& call) {
      if (call.kind != CallKind::kTask || call.state == PendingCall::State::kSent) return;
      reply.rows.push_back({{"task_id", task_id_text(self(), call.id)}, {"name", calls_->name_of(call)},
                            {"state", call.state == PendingCall::State::kWaiting ? "PENDING_ARGUMENTS" : "PENDING"},
                            {"node_id", ""}, {"actor_id", ""}, {"error", ""}, {"pid", "0"}, {"attempt", std::to_string(call.attempt)}});
    });
    for (const auto& done : calls_->finished())
      reply.rows.push_back({{"task_id", done.task_id}, {"name", done.name}, {"state", done.state}, {"node_id", ""}, {"actor_id", done.actor_id},
                            {"error", done.error}, {"pid", "0"}, {"attempt", std::to_string(done.attempt)}});
  } else if (query.kind == wire::StateKind::kObjects) {
    objects_->for_each([&](ObjectEntry& entry) {
      if (!entry.owned || (query.limit >= 0 && reply.rows.size() >= std::size_t(query.limit) && query.filter.empty())) return;
      std::uint64_t size = entry.value.size();
      if (entry.state() == ObjectEntry::kReady && entry.value.attachments)
        for (const auto& buffer : entry.value.attachments->buffers) size += buffer->size();
      const char* state = entry.state() == ObjectEntry::kReady ? "READY" : entry.state() == ObjectEntry::kFailed ? "FAILED" : "PENDING";
      reply.rows.push_back({{"object_id", to_string(entry.id)}, {"state", state}, {"node_id", welcome_.node_id}, {"size", std::to_string(size)},
                            {"refs", std::to_string(entry.use_count())}});
    });
  }
}

}  // namespace troupe::worker
