// Running one call: decode, invoke, answer. The one place where user exceptions are caught.
#include <unistd.h>

#include <algorithm>

#include "core/base/exception.h"
#include "core/base/log.h"
#include "core/worker/core.h"
#include "core/worker/host.h"
#include "core/worker/hosted_actor.h"
#include "core/worker/outlet.h"
#include "core/worker/waits.h"

namespace troupe::worker {

namespace {
std::uint64_t micros_since(exec::Deadline start) {
  return std::uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(exec::Deadline::clock::now() - start).count());
}
}  // namespace

void Host::run(const IncomingPtr& call, HostedActor* actor) {
  if (Outlet* outlet = core_.outlet()) [[unlikely]] return outlet->run(call, actor);
  if (core_.is_cut_off()) [[unlikely]] return;
  CallContext context;
  const exec::Deadline start = begin_run(call, actor, context);
  CallContext* const outer = current_context();
  set_current_context(&context);
  detail::Invocation invocation;
  const ErrorPtr error = invoke(*call, actor, context, invocation);
  const std::uint64_t run_us = micros_since(start);
  set_current_context(outer);
  end_run(call, actor, context, invocation, error, run_us);
}

exec::Deadline Host::begin_run(const IncomingPtr& call, HostedActor* actor, CallContext& context) {
  context.core = &core_;
  context.submitter = call->source;
  context.call_id = call->head.call_id;
  context.function = detail::function_at(call->head.function);
  context.name = call->name;
  context.is_task = call->head.kind == CallKind::kTask;
  context.actor = actor;
  context.attempt = actor ? actor->restarts() : int(call->head.attempt);
  context.resources = actor ? actor->resources() : call->resources;
  if (actor) context.gpu_ids = actor->gpu_ids();
  const exec::Deadline start = core_.now();
  CoreLock lock(core_);
  context.run = next_run();
  context.caller = actor ? actor->caller_key() : context.run << 20 | 1;
  call->running = &context;
  running_.push_back(call);
  if (actor) unlink_admitted(*call);
  if (context.is_task) current_since_ = start;
  note_begun(*call);
  if (call->head.timeout_ns > 0) start_deadline(call);
  return start;
}

void Host::end_run(const IncomingPtr& call, HostedActor* actor, CallContext& context, detail::Invocation& invocation, const ErrorPtr& error, std::uint64_t run_us) {
  CoreLock lock(core_);
  answer(*call, actor, invocation, error, run_us);
  call->running = nullptr;
  std::erase(running_, call);
  if (context.is_task) current_task_ = nullptr;
  if (actor) actor->finished(*call, context.exit_asked);
}

/// Runs the user's function, without the lock. What it threw or returned as an error; null when it has results.
ErrorPtr Host::invoke(IncomingCall& call, HostedActor* actor, CallContext& context, detail::Invocation& invocation) {
  try {
    if (call.dropped && !call.head.stream) {
      if (call.dropped_why) call.dropped_why->raise();
      throw CancelledError("the call was cancelled before it began");
    }
    if (!context.function) throw SerializationError("the call names a function that this program does not have");
    if (Result<bool> here = core_.transit().fetch_all(call.arguments, exec::kNever); !here.ok()) here.error().raise();
    std::vector<const detail::Value*> dependencies;
    for (const auto& dependency : call.dependencies) {
      if (Result<bool> here = core_.transit().fetch_all(dependency, exec::kNever); !here.ok()) here.error().raise();
      dependencies.push_back(&dependency);
    }
    invocation.body = {call.arguments.data(), call.arguments.size()};
    invocation.attachments = call.arguments.attachments.get();
    invocation.dependencies = dependencies;
    invocation.instance = actor ? actor->instance() : nullptr;
    context.function->invoke(invocation);
    if (invocation.generator) {
      stream_items(call, context, *invocation.generator);
      invocation.generator.reset();
    }
    if (!invocation.error || invocation.error->code() != ErrorCode::kUser) return invocation.error;
    ErrorRecord record = invocation.error->record();
    record.code = ErrorCode::kTask;
    record.type_name = "troupe::Error";
    return in_context(std::move(record), call, context);
  } catch (...) {
    return error_of_exception(call, context);
  }
}

void Host::answer(IncomingCall& call, HostedActor* actor, detail::Invocation& invocation, const ErrorPtr& error, std::uint64_t run_us) {
  // The arguments go now, so that what they hold is free before the caller goes on.
  call.arguments = {};
  call.dependencies.clear();
  if (error) {
    if (call.head.kind == CallKind::kCast) write_log(LogLevel::kError, "a cast failed: {}", std::string(error->what()));
    if (actor) actor->remember(call, nullptr);
    reply_error(call, error);
  } else {
    if (actor) actor->remember(call, &invocation.results);
    reply_values(call, invocation.results, run_us);
  }
}

void Host::stream_items(IncomingCall& call, CallContext& context, detail::GeneratorBase& generator) {
  const std::uint64_t ahead = call.head.stream_buffer ? call.head.stream_buffer : 64;
  std::uint64_t index = 0;
  for (;; ++index) {
    {
      exec::Waiter waiter(core_);
      WaitScope scope(core_, waiter);
      for (;;) {
        {
          CoreLock lock(core_);
          if (call.dropped || index < call.stream_taken + ahead) break;
          scope.check();
        }
        scope.wait(exec::kNever);  // for the reader's credit, its dropping the stream, or its death
      }
    }
    if (call.dropped) return;
    detail::Value item;
    if (!generator.next(item)) break;
    CoreLock lock(core_);
    FrameWriter out(core_.courier().scratch());
    ReplyHead head{.call_id = call.head.call_id, .index = index, .values = 1};
    out.put(head);
    Outgoing outgoing(call.source);
    core_.transit().write(out, item, outgoing);
    head.hold = core_.transit().hold(std::move(outgoing));
    out.patch(0, head);
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kStreamItem);
    core_.courier().send(call.source, header, out.view());
  }
  call.stream_taken = index;
  (void)context;
}

ErrorPtr Host::in_context(ErrorRecord record, const IncomingCall& call, const CallContext& context) {
  record.context.function = context.function ? detail::function_name(*context.function) : std::string();
  record.context.task_id = task_id_text(call.source, call.head.call_id);
  record.context.actor_id = call.head.actor.is_nil() ? std::string() : to_string(call.head.actor);
  record.context.node = core_.welcome().node_id;
  record.context.pid = ::getpid();
  record.context.attempt = context.attempt;
  return Error::make(std::move(record));
}

ErrorPtr Host::error_of_exception(const IncomingCall& call, const CallContext& context) {
  ErrorRecord record = describe_current_exception();
  if (record.code == ErrorCode::kUser) {
    record.code = ErrorCode::kTask;
    record.type_name = "troupe::Error";
  }
  if (record.code == ErrorCode::kTask && record.context.function.empty()) return in_context(std::move(record), call, context);
  if (record.context.function.empty()) return in_context(std::move(record), call, context);
  return Error::make(std::move(record));
}

void Host::start_deadline(const IncomingPtr& call) {
  core_.add_timer(core_.deadline_after(std::chrono::nanoseconds(call->head.timeout_ns)), [this, weak = std::weak_ptr(call)] {
    IncomingPtr late = weak.lock();
    if (!late || !late->running) return;
    ErrorRecord record;
    record.code = ErrorCode::kDeadlineExceeded;
    record.message = "the task " + name_of_context(*late->running) + " did not end within its timeout";
    const ErrorPtr error = in_context(std::move(record), *late, *late->running);
    reply_error(*late, error, true);
    interrupt(*late->running, error);
  });
}

// ----------------------------------------------------------------------------------------------------------------- answering

void Host::send_reply(IncomingCall& call, ReplyHead head, FrameWriter& out) {
  out.patch(0, head);
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kReply);
  core_.courier().send(call.source, header, out.view());
}

void Host::reply_error(IncomingCall& call, const ErrorPtr& error, bool early) {
  ReplyHead head{.call_id = call.head.call_id, .status = ReplyStatus::kError, .reserved = std::uint8_t(early ? 1 : 0)};
  FrameWriter out(core_.courier().scratch());
  out.put(head);
  const std::vector<std::byte> bytes = wire::encode_message(error->record());
  out.bytes(bytes.data(), bytes.size());
  send_reply(call, head, out);
}

void Host::reply_values(IncomingCall& call, const std::vector<detail::Value>& values, std::uint64_t run_us) {
  ReplyHead head{.call_id = call.head.call_id};
  head.run_us = std::uint32_t(std::min<std::uint64_t>(run_us, 0xFFFFFFFF));
  head.values = call.head.kind == CallKind::kCast ? 0 : std::uint16_t(values.size());
  if (call.head.stream) {
    head.status = ReplyStatus::kStreamEnd;
    head.index = call.stream_taken;
    head.values = 0;
  }
  FrameWriter out(core_.courier().scratch());
  out.put(head);
  Outgoing outgoing(call.source);
  for (std::size_t i = 0; i < head.values; ++i) core_.transit().write(out, values[i], outgoing);
  head.hold = core_.transit().hold(std::move(outgoing));
  send_reply(call, head, out);
}

}  // namespace troupe::worker
