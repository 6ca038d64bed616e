#include "core/caller/caller.h"

#include <utility>

#include "core/caller/streams.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

Caller::Caller(Runtime& runtime, Owner& owner)
    : runtime_(runtime),
      owner_(owner),
      calls_(runtime, owner),
      tasks_(runtime, owner, calls_),
      actors_(runtime, owner, calls_, untaken_),
      lookup_(runtime, actors_),
      creation_(runtime, owner, actors_, lookup_, untaken_) {
  owner.set_calling_side(*this);
}

// ---------------------------------------------------------------------------------------------------------- cancelling

void Caller::cancel(PendingCall& call, const CancelOptions& options) {
  if (call.kind == CallKind::kTask) tasks_.cancel(call, options);
  else client_of(call.actor).cancel(call, options);
}

void Caller::cancel_object(ObjectEntry& entry, const CancelOptions& options) {
  if (!entry.owned) {
    const std::uint64_t flags = (options.force ? kCancelForce : 0) | (options.recursive ? kCancelRecursive : 0);
    const ByteView id = std::as_bytes(std::span(&entry.id, 1));
    return runtime_.frames().control(entry.id.maker, Control::kCancelObject, 0, flags, id);
  }
  if (entry.producer) cancel(*entry.producer, options);
}

void Caller::on_cancel_object(ProcessId source, std::uint64_t flags, ByteView payload) {
  FrameReader in(payload);
  const ObjectId id = in.get<ObjectId>();
  if (in.failed()) return runtime_.bad_frame("a cancellation", source);
  const CancelOptions options{(flags & kCancelForce) != 0, (flags & kCancelRecursive) != 0};
  if (ObjectEntryPtr entry = owner_.objects().find_owned(id)) cancel_object(*entry, options);
}

void Caller::cancel_children(std::uint64_t run) {
  std::vector<std::uint64_t> children;
  calls_.for_each([&](PendingCall& child) {
    if (child.parent == run) children.push_back(child.id);
  });
  for (std::uint64_t id : children) {
    PendingCall* child = calls_.find(id);
    if (child && (child->kind == CallKind::kTask || child->kind == CallKind::kActorCall)) cancel(*child, {});
  }
}

// ----------------------------------------------------------------------------------------------------- incoming frames

void Caller::on_reply(const net::FrameHeader& header, ByteView payload) {
  FrameReader in(payload);
  const ReplyHead head = in.get<ReplyHead>();
  if (in.failed()) return runtime_.bad_frame("a reply", header.source);
  PendingCall* call = calls_.find(head.call_id);
  if (!call || call->state != PendingCall::State::kSent || call->target != header.source)
    return owner_.values().discard(head, in, header.source);
  if (call->kind == CallKind::kTask) tasks_.on_reply(*call, head, in, header.source);
  else client_of(call->actor).on_reply(*call, head, in, header.source);
}

void Caller::on_stream_item(const net::FrameHeader& header, ByteView payload) {
  FrameReader in(payload);
  const ReplyHead head = in.get<ReplyHead>();
  if (in.failed()) return runtime_.bad_frame("a stream's item", header.source);
  const Arrival arrival = owner_.holds().begin(header.source, head.hold);
  detail::Value value = owner_.values().read(in, arrival);
  owner_.holds().end(arrival);
  PendingCall* call = calls_.find(head.call_id);
  if (!call || !call->stream) return;
  if (in.failed()) {
    if (call->state != PendingCall::State::kSent || call->target != header.source) return;  // of an earlier attempt
    // RFM-1; whoever makes the items has no reader any more
    calls_.fail_results(*call, make_error<SerializationError>("an item of " + calls_.described(*call) +
                                                              " does not decode"));
    return cancel(*call, {});
  }
  owner_.buffers().made_by(value, [&] { return calls_.described(*call); });
  call->stream->item(head.index, std::move(value));
}

void Caller::on_recalled(ProcessId source, ByteView payload) {
  FrameReader in(payload);
  std::vector<PendingCall*> recalled;
  while (in.left() >= sizeof(std::uint64_t)) {
    PendingCall* call = calls_.find(in.get<std::uint64_t>());
    if (call && call->kind == CallKind::kTask && call->target == source) recalled.push_back(call);  // TS-9
  }
  tasks_.on_recalled(recalled);
  if (in.left() != 0) runtime_.bad_frame("a recall", source);
}

// ---------------------------------------------------------------------------------------------------------------- ends

void Caller::process_died(const wire::ProcessDied& died, const net::BegunCalls& begun) {
  tasks_.process_died(died, begun);
  actors_.process_died(died, begun);
  creation_.process_died(died.process);
}

void Caller::node_died(std::uint32_t node, const ErrorPtr& error) {
  tasks_.node_died(node, error);
  actors_.node_died(node, error);
}

std::vector<std::uint64_t> Caller::open_calls() {
  std::vector<std::uint64_t> open;
  calls_.for_each([&](PendingCall& call) { open.push_back(call.id); });
  return open;
}

void Caller::begin_shutdown(const ErrorPtr& why) {
  for (std::uint64_t id : open_calls())
    if (PendingCall* call = calls_.find(id); call && !call->cancelled) {
      calls_.fail_results(*call, why);
      call->cancelled = true;
    }
}

void Caller::clear(const ErrorPtr& why) {
  actors_.clear(why);
  creation_.clear();
  untaken_.clear();
  tasks_.clear();
  for (std::uint64_t id : open_calls())
    if (PendingCall* call = calls_.find(id)) calls_.fail(*call, why);
}

// -------------------------------------------------------------------------------------------------------- calling side

void Caller::dependency_ready(PendingCall& call) {
  if (call.unresolved > 1) {
    --call.unresolved;
    return;
  }
  ready_.push_back(call.id);
  if (std::exchange(going_on_, true)) return;  // CAL-1
  while (!ready_.empty()) {
    PendingCall* next = calls_.find(ready_.front());
    ready_.pop_front();
    if (next) arguments_ready(*next);
  }
  going_on_ = false;
}

void Caller::arguments_ready(PendingCall& call) {
  call.unresolved = 0;
  if (call.kind == CallKind::kTask) tasks_.arguments_ready(call);
  else client_of(call.actor).arguments_ready(call);
}

void Caller::result_unwanted(PendingCall& call, ObjectEntry& entry) {
  if (call.single == &entry) call.single = nullptr;
  for (ObjectEntry*& one : call.several)
    if (one == &entry) one = nullptr;
}

detail::HandlePtr Caller::handle(const wire::HandleDesc& desc, std::uint64_t arrival, bool& wait) {
  return actors_.handle(desc, arrival, wait);
}

const wire::HandleDesc& Caller::describe(const detail::HandlePtr& handle) { return actors_.describe(handle); }

}  // namespace troupe::worker
