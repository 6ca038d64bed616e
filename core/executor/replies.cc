#include "core/executor/replies.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/exception.h"
#include "core/caller/call_table.h"
#include "core/owner/owner.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
std::size_t send(Runtime& runtime, const IncomingCall& call, wire::FrameKind kind, const FrameWriter& out) {
  net::FrameHeader header;
  header.kind = std::uint8_t(kind);
  runtime.frames().send(call.source, header, out.view());
  return out.view().size();
}
}  // namespace

void Replies::error(IncomingCall& call, const ErrorPtr& error, std::uint64_t index) {
  FrameWriter out(runtime_.frames().scratch());
  out.put(ReplyHead{.call_id = call.head.call_id,
                    .index = index,
                    .run_us = call.run_us,
                    .status = ReplyStatus::kError,
                    .lent = call.lent});
  ErrorRecord record = error->record();
  cut_message(record.message);  // of one that was returned, not thrown
  const std::vector<std::byte> bytes = wire::encode_message(record);
  out.bytes(bytes.data(), bytes.size());
  send(runtime_, call, wire::FrameKind::kReply, out);
}

ErrorPtr Replies::too_large(const IncomingCall& call, const CallContext& context,
                            std::span<const detail::Value> values) {
  std::size_t size = sizeof(ReplyHead);
  for (const detail::Value& value : values) size += owner_.values().frame_size(value);
  if (size <= net::kPayloadMax) return nullptr;
  ErrorRecord record;
  record.code = ErrorCode::kInvalidArgument;
  record.message = fmt::format(
      "the results of {} name so many references, arrays and handles ({} MiB of names) that they do not fit one "
      "message of {} MiB",
      name_of_context(context), size >> 20, net::kPayloadMax >> 20);
  return error_in_context(runtime_, std::move(record), call, context);
}

std::size_t Replies::values(IncomingCall& call, const std::vector<detail::Value>& values) {
  ReplyHead head{.call_id = call.head.call_id, .run_us = call.run_us, .lent = call.lent};
  head.values = call.head.kind == CallKind::kCast ? 0 : std::uint16_t(values.size());
  if (call.head.stream) {
    head.status = ReplyStatus::kStreamEnd;
    head.values = 0;
  }
  FrameWriter out(runtime_.frames().scratch());
  out.put(head);
  Outgoing outgoing(call.source);
  for (std::size_t i = 0; i < head.values; ++i) owner_.values().write(out, values[i], outgoing);
  head.hold = owner_.holds().hold(std::move(outgoing));
  out.patch(0, head);
  return send(runtime_, call, wire::FrameKind::kReply, out);
}

std::size_t Replies::stream_item(IncomingCall& call, std::uint64_t index, const detail::Value& item) {
  ReplyHead head{.call_id = call.head.call_id, .index = index, .values = 1};
  FrameWriter out(runtime_.frames().scratch());
  out.put(head);
  Outgoing outgoing(call.source);
  owner_.values().write(out, item, outgoing);
  head.hold = owner_.holds().hold(std::move(outgoing));
  out.patch(0, head);
  return send(runtime_, call, wire::FrameKind::kStreamItem, out);
}

ErrorPtr error_in_context(const Runtime& runtime, ErrorRecord record, const IncomingCall& call,
                          const CallContext& context) {
  record.context.function = context.function ? detail::function_name(*context.function) : std::string();
  record.context.task_id = task_id_text(call.source, call.head.call_id);
  record.context.actor_id = call.head.actor.is_nil() ? std::string() : to_string(call.head.actor);
  record.context.node = runtime.welcome().node_id;
  record.context.pid = ::getpid();
  record.context.attempt = context.attempt;
  return Error::make(std::move(record));
}

}  // namespace troupe::worker
