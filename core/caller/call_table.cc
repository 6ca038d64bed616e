#include "core/caller/call_table.h"

#include <fmt/format.h>

#include <utility>

#include "core/caller/actor_client.h"
#include "core/caller/lease_pool.h"
#include "core/runtime/context.h"
#include "core/runtime/runtime.h"
#include "core/caller/streams.h"

namespace troupe::worker {

namespace {
constexpr std::size_t kTextsMax = 256 << 10;  // a call's head, name, key, group and resources
}

std::string task_id_text(ProcessId submitter, std::uint64_t call_id) { return detail::hex(submitter.key(), call_id); }

PendingCall* CallTable::make(detail::OutgoingCall outgoing, CallKind kind, detail::ObjectPtr* returns) {
  PendingCall* call = calls_.make();
  call->function = outgoing.function;
  call->arguments = std::move(outgoing.arguments);
  budget_.charge(call->arguments.body.size());
  call->dependencies = std::move(outgoing.dependencies);
  call->returns = std::uint16_t(outgoing.returns);
  call->kind = kind;
  if (const CallContext* context = current_context()) call->parent = context->run;
  if (returns) {
    for (std::uint32_t i = 0; i < outgoing.returns; ++i) {
      ObjectEntry* entry = owner_.objects().make_owned();
      entry->producer = call;
      if (outgoing.returns == 1) call->single = entry;
      else call->several.push_back(entry);
      returns[i] = detail::ObjectPtr::adopt(entry);
    }
  }
  return call;
}

ErrorPtr CallTable::resolve(PendingCall& call) {
  for (const auto& dependency : call.dependencies) {
    ObjectEntry& entry = entry_of(dependency);
    if (entry.state() == ObjectEntry::kFailed) {
      unlink_dependencies(call);
      return entry.error;
    }
    if (entry.state() == ObjectEntry::kReady) continue;
    owner_.objects().want(entry);
    entry.rare().dependents.push_back(&call);
    ++call.unresolved;
  }
  return nullptr;
}

void CallTable::unlink_dependencies(PendingCall& call) {
  for (const auto& dependency : call.dependencies)
    if (ObjectEntry::Rare* rare = entry_of(dependency).rare_if()) std::erase(rare->dependents, &call);
  call.unresolved = 0;
}

ErrorPtr CallTable::check_size(const PendingCall& call) {
  if (!call.arguments.attachments && call.dependencies.empty()) return nullptr;
  std::size_t size = kTextsMax + owner_.values().frame_size(call.arguments);
  for (const auto& dependency : call.dependencies) size += owner_.values().frame_size(entry_of(dependency).value);
  if (size <= net::kPayloadMax) return nullptr;
  return make_error<InvalidArgumentError>(fmt::format(
      "the arguments of {} name so many references, arrays and handles ({} MiB of names) that they do not fit "
      "one message of {} MiB",
      name_of(call), size >> 20, net::kPayloadMax >> 20));
}

void CallTable::send(PendingCall& call, ProcessId target, CallLease lease) {
  static const CallInfo defaults;
  const CallInfo& info = call.info ? *call.info : defaults;
  CallHead head;
  head.call_id = call.id;
  head.kind = call.kind;
  head.function = call.function ? call.function->index : 0;
  head.dependencies = std::uint32_t(call.dependencies.size());
  head.attempt = call.attempt;
  head.returns = call.returns;
  head.stream = call.stream ? 1 : 0;
  head.stream_buffer = info.stream_buffer;
  head.caller = call.caller;
  if (call.actor) {
    head.actor = client_of(call.actor).id();
    head.direct = client_of(call.actor).life().direct() ? 1 : 0;
  }
  head.lease = lease.id;
  head.shared = lease.shared ? 1 : 0;
  head.cpus = info.resources.cpus == kUnset ? 1 : info.resources.cpus;
  head.name_size = std::uint16_t(std::min<std::size_t>(info.name.size(), 0xFFFF));
  head.key_size = std::uint16_t(std::min<std::size_t>(info.key.size(), 0xFFFF));
  head.group_size = std::uint16_t(std::min<std::size_t>(info.group.size(), 0xFFFF));
  std::vector<std::byte> resources;
  if (!info.plain_resources)
    resources = wire::encode_message(
        wire::TaskGrant{info.resources, lease.gpu_ids ? *lease.gpu_ids : std::vector<int>()});
  head.resources_size = std::uint32_t(resources.size());

  FrameWriter out(runtime_.frames().scratch());
  out.put(head);
  out.text(std::string_view(info.name).substr(0, head.name_size));
  out.text(std::string_view(info.key).substr(0, head.key_size));
  out.text(std::string_view(info.group).substr(0, head.group_size));
  out.bytes(resources.data(), resources.size());
  Outgoing outgoing(target);
  owner_.values().write(out, call.arguments, outgoing);
  for (const auto& dependency : call.dependencies) owner_.values().write(out, entry_of(dependency).value, outgoing);
  head.hold = owner_.holds().hold(std::move(outgoing));
  out.patch(0, head);

  call.target = target;
  call.number = runtime_.frames().next_call_number(target);
  call.state = PendingCall::State::kSent;
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kCall);
  header.token = call.number;
  header.arg0 = call.id;
  if (call.stream) header.arg1 = call.stream->taken();  // a later attempt goes on where the reader is
  runtime_.frames().send(target, header, out.view());
}

void CallTable::succeed(PendingCall& call, const ReplyHead& head, FrameReader& in, ProcessId source) {
  const Arrival arrival = owner_.holds().begin(source, head.hold);
  std::size_t i = 0;
  ErrorPtr bad;  // RFM-1
  auto next = [&](ObjectEntry* entry) {
    detail::Value value;
    if (i++ < head.values && !bad) value = owner_.values().read(in, arrival);
    if (in.failed() && !bad)
      bad = make_error<SerializationError>("the reply of " + described(call) + " does not decode");
    if (bad) {
      if (entry) owner_.objects().fail(*entry, bad);
      return;
    }
    if (value.large_body || value.attachments) owner_.buffers().made_by(value, [&] { return described(call); });
    if (entry) owner_.objects().complete(*entry, std::move(value));
  };
  if (call.several.empty()) next(call.single);
  for (ObjectEntry* entry : call.several) next(entry);
  owner_.holds().end(arrival);
  if (call.stream) call.stream->finish();
  note_finished(call, bad ? End::kFailed : End::kFinished, bad ? bad->message() : std::string());
  forget(call);
}

void CallTable::fail_results(PendingCall& call, const ErrorPtr& error) {
  call.for_each_result([&](ObjectEntry& entry) { owner_.objects().fail(entry, error); });
  call.single = nullptr;
  call.several.clear();
  // Its reader may drop it from now on, and the call can stay for its reply.
  if (StreamState* stream = std::exchange(call.stream, nullptr)) stream->fail(error);
}

void CallTable::fail(PendingCall& call, const ErrorPtr& error) {
  fail_results(call, error);
  note_finished(call, End::kFailed, error->message());
  forget(call);
}

void CallTable::forget(PendingCall& call) {
  unlink_dependencies(call);
  if (call.timer != 0) runtime_.cancel_timer(call.timer);
  if (call.lease_class) --call.lease_class->calls;
  call.state = PendingCall::State::kDone;
  if (call.actor) client_of(call.actor).call_closed();
  budget_.release(call.arguments.body.size());
  calls_.destroy(&call, call.id);
}

std::string CallTable::name_of(const PendingCall& call) const {
  if (call.info && !call.info->name.empty()) return call.info->name;
  return call.function ? detail::function_name(*call.function) : std::string("stop");
}

std::string CallTable::described(const PendingCall& call) const {
  return (call.actor ? "the method '" : "the task '") + name_of(call) + "'";
}

ErrorContext CallTable::context_of(const PendingCall& call) const {
  ErrorContext context;
  if (call.function) context.function = detail::function_name(*call.function);
  context.task_id = task_id_text(runtime_.self(), call.id);
  if (call.actor) context.actor_id = to_string(client_of(call.actor).id());
  context.attempt = int(call.attempt);
  return context;
}

void CallTable::note_finished(PendingCall& call, End end, const std::string& error) {
  if (call.kind != CallKind::kTask) return;
  // A full history is rewritten only now and then: names cost more than the task itself.
  const bool is_news = call.info || end != End::kFinished;
  if (finished_.size() >= kFinishedMax && !is_news) return;
  const char* state = end == End::kFinished ? "FINISHED" : "FAILED";
  finished_.push_back({task_id_text(runtime_.self(), call.id), name_of(call), state, {}, error, int(call.attempt)});
  if (finished_.size() > kFinishedMax) finished_.pop_front();
}

}  // namespace troupe::worker
