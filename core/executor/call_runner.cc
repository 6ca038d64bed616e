#include "core/executor/call_runner.h"

#include <algorithm>

#include "core/base/exception.h"
#include "core/base/output.h"
#include "core/executor/host.h"
#include "core/executor/hosted_actor.h"
#include "core/executor/stream_window.h"
#include "core/owner/owner.h"
#include "core/runtime/runtime.h"
#include "core/runtime/waits.h"

namespace troupe::worker {

namespace {
constexpr std::uint64_t kStreamBuffer = 64;  // items ahead of the reader, when it did not say

/// What an item takes: of the store, or of the reader's memory.
std::uint64_t bytes_of(const detail::Value& item) {
  std::uint64_t bytes = item.large_body ? item.large_body->size() : item.body.size();
  if (item.attachments)
    for (const auto& buffer : item.attachments->buffers) bytes += buffer->size();
  return bytes;
}

std::uint32_t micros(exec::Deadline::duration time) {
  const auto count = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return std::uint32_t(std::clamp<std::int64_t>(count, 0, kNotRun - 1));
}
}  // namespace

void CallRunner::run(const IncomingPtr& call, HostedActor* actor) {
  if (runtime_.is_cut_off()) [[unlikely]] return host_.never_runs(*call, actor);
  CallContext context;
  const exec::Deadline start = host_.begin_run(call, actor, context);
  CallContext* const outer = current_context();
  set_current_context(&context);
  detail::Invocation invocation;
  const ErrorPtr error = invoke(*call, actor, context, invocation);
  if (call->run_us != kNotRun) call->run_us = micros(runtime_.now() - start);
  flush_call_output();
  set_current_context(outer);
  host_.end_run(call, actor, context, invocation, error);
}

/// Runs the user's function. What it threw or returned as an error; null when it has results.
ErrorPtr CallRunner::invoke(IncomingCall& call, HostedActor* actor, CallContext& context,
                            detail::Invocation& invocation) {
  try {
    if (!call.head.stream && call.dropped) {  // a stream's is written while it runs, under the lock
      if (call.dropped_why) call.dropped_why->raise();
      throw CancelledError("the call was cancelled before it began");
    }
    if (!context.function) throw SerializationError("the call names a function that this program does not have");
    BufferTable& buffers = owner_.buffers();
    if (Result<bool> here = buffers.fetch_all(call.arguments, exec::kNever); !here.ok()) here.error().raise();
    std::vector<const detail::Value*> dependencies;
    for (const auto& dependency : call.dependencies) {
      if (Result<bool> here = buffers.fetch_all(dependency, exec::kNever); !here.ok()) here.error().raise();
      dependencies.push_back(&dependency);
    }
    invocation.body = {call.arguments.data(), call.arguments.size()};
    invocation.attachments = call.arguments.attachments.get();
    invocation.dependencies = dependencies;
    invocation.instance = actor ? actor->instance() : nullptr;
    call.run_us = 0;
    context.function->invoke(invocation);
    if (invocation.generator) {
      stream_items(call, *invocation.generator);
      invocation.generator.reset();
    }
    if (!invocation.error || invocation.error->code() != ErrorCode::kUser) return invocation.error;
    ErrorRecord record = invocation.error->record();
    record.code = ErrorCode::kTask;
    record.type_name = "troupe::Error";
    return error_in_context(runtime_, std::move(record), call, context);
  } catch (...) {
    ErrorPtr error = error_of_exception(call, context);
    invocation.generator.reset();  // what its locals do as they end belongs to the call
    return error;
  }
}

/// A cast's items have no reader: the generator runs to its end all the same, and each item is dropped.
void CallRunner::stream_items(IncomingCall& call, detail::GeneratorBase& generator) {
  const bool read = call.head.stream != 0;
  StreamWindow window(call.head.stream_buffer ? call.head.stream_buffer : kStreamBuffer,
                      runtime_.welcome().store_capacity / StreamWindow::kShareOfStore);
  for (;;) {
    {
      exec::Waiter waiter(runtime_);
      WaitScope scope(runtime_, waiter);
      for (;;) {
        {
          CoreLock lock(runtime_);
          if (!read) scope.check();  // a kill ends it between two items
          window.taken(call.stream_taken);
          if (call.dropped) return;
          if (!read || (window.may_make() && !host_.is_held(call.source))) break;
          scope.check();
          // It has gone on after its interruption, and its reader has its end already: nobody gives it credit.
          if (current_context()->cancelled) throw CancelledError("the call was cancelled");
        }
        scope.wait(exec::kNever);  // for the reader's credit, its dropping the stream, or its death
      }
    }
    detail::Value item;
    if (!generator.next(item)) break;
    if (!read) continue;
    CoreLock lock(runtime_);
    if (ErrorPtr large = host_.replies().too_large(call, *current_context(), {&item, 1})) large->raise();
    host_.replied(call.source, host_.replies().stream_item(call, window.made(), item));
    window.made(bytes_of(item));
  }
}

ErrorPtr CallRunner::error_of_exception(const IncomingCall& call, const CallContext& context) {
  ErrorRecord record = describe_current_exception();
  if (record.code == ErrorCode::kUser) {
    record.code = ErrorCode::kTask;
    record.type_name = "troupe::Error";
  }
  if (record.context.function.empty()) return error_in_context(runtime_, std::move(record), call, context);
  return Error::make(std::move(record));
}

}  // namespace troupe::worker
