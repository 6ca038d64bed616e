#include "core/owner/owner.h"

#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
/// between two looks whether a late reader takes its values again
constexpr Duration kLateLook = std::chrono::milliseconds(1);
}  // namespace

Owner::Owner(Runtime& runtime)
    : runtime_(runtime),
      objects_(runtime, *this),
      holds_(runtime.frames()),
      buffers_(runtime, holds_),
      values_(runtime, objects_, holds_, buffers_) {}

void Owner::set_calling_side(CallingSide& calls) {
  calls_ = &calls;
  values_.set_calling_side(calls);
}

void Owner::run_callback(std::function<void()> callback) { runtime_.run_later(std::move(callback)); }

// -------------------------------------------------------------------------------------------------------------- counts

void Owner::on_release(ProcessId borrower, ByteView payload) {
  FrameReader in(payload);
  while (in.left() >= sizeof(ObjectId) + sizeof(std::uint64_t)) {
    const ObjectId id = in.get<ObjectId>();
    objects_.released(borrower, id, std::uint32_t(in.get<std::uint64_t>()));
  }
  if (in.left() != 0) runtime_.bad_frame("a release", borrower);
}

void Owner::on_borrow(ProcessId borrower, ByteView payload) {
  FrameReader in(payload);
  while (in.left() >= sizeof(ObjectId)) {
    const ObjectId id = in.get<ObjectId>();
    if (ObjectEntryPtr entry = objects_.find_owned(id)) objects_.grant(*entry, borrower);
    runtime_.frames().control(borrower, Control::kBorrowed, 0, 0, std::as_bytes(std::span(&id, 1)));
  }
  if (in.left() != 0) runtime_.bad_frame("a borrower's word", borrower);
}

void Owner::on_borrowed(ProcessId owner, ByteView payload) {
  FrameReader in(payload);
  const ObjectId id = in.get<ObjectId>();
  if (in.failed()) return runtime_.bad_frame("an owner's word", owner);
  for (std::uint64_t arrival : objects_.confirmed(id)) holds_.confirmed(arrival);
}

void Owner::send_release(ProcessId, ObjectId id, std::uint32_t grants) {
  runtime_.frames().count(Count::kRelease, id, grants);
}
void Owner::send_borrow(ProcessId, ObjectId id) { runtime_.frames().count(Count::kBorrow, id); }
void Owner::send_value_request(ProcessId, ObjectId id) { runtime_.frames().count(Count::kValueRequest, id); }

void Owner::on_value_request(const net::FrameHeader& header, ByteView payload) {
  FrameReader in(payload);
  const ObjectId id = in.get<ObjectId>();
  if (in.failed()) return runtime_.bad_frame("a question for a value", header.source);
  if (objects_.value_wanted(header.source, id, id.seq)) return;
  ReplyHead head{.call_id = id.seq, .status = ReplyStatus::kError};
  FrameWriter out(runtime_.frames().scratch());
  out.put(head);
  const auto bytes = wire::encode_message(
      object_lost("the object " + to_string(id) + " is gone: its owner keeps it no more")->record());
  out.bytes(bytes.data(), bytes.size());
  net::FrameHeader answer;
  answer.kind = std::uint8_t(wire::FrameKind::kValue);
  runtime_.frames().send(header.source, answer, out.view());
}

void Owner::send_value(ProcessId reader, std::uint64_t token, ObjectEntry& entry) {
  // An error does not wait: it is small. Nor does an entry on its way out (its last handle is gone, and who dropped it
  // waits for the lock): nobody can keep it any more.
  if (entry.state() != ObjectEntry::kFailed && late_.is_late(reader) && entry.try_retain())
    late_.add(reader, ObjectEntryPtr::adopt(&entry));
  else answer(reader, token, entry);
}

void Owner::answer(ProcessId reader, std::uint64_t token, ObjectEntry& entry) {
  FrameWriter out(runtime_.frames().scratch());
  ReplyHead head{.call_id = token};
  out.put(head);
  if (entry.state() == ObjectEntry::kFailed) {
    head.status = ReplyStatus::kError;
    const auto bytes = wire::encode_message(entry.error->record());
    out.bytes(bytes.data(), bytes.size());
  } else if (const std::size_t size = sizeof head + values_.frame_size(entry.value); size > net::kPayloadMax) {
    head.status = ReplyStatus::kError;
    const InvalidArgumentError large(
        "the object " + to_string(entry.id) + " names so many references, arrays and handles (" +
        std::to_string(size >> 20) + " MiB of names) that they do not fit one message");
    const auto bytes = wire::encode_message(large.record());
    out.bytes(bytes.data(), bytes.size());
  } else {
    Outgoing outgoing(reader);
    head.values = 1;
    values_.write(out, entry.value, outgoing);
    head.hold = holds_.hold(std::move(outgoing));
  }
  out.patch(0, head);
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kValue);
  const std::size_t bytes = out.view().size();
  runtime_.frames().send(reader, header, out.view());
  if (bytes < ReplyRoom::kLarge) return;
  const bool was_any = late_.any();
  if (late_.answered(reader, runtime_.frames().backlog(reader)) && !was_any) look_at_late_soon();
}

void Owner::look_at_late_soon() {
  runtime_.add_timer(runtime_.deadline_after(kLateLook), [this] {
    late_.look([this](ProcessId reader) { return runtime_.frames().backlog(reader); },
               [this](ProcessId reader, ObjectEntry& entry) { answer(reader, entry.id.seq, entry); });
    if (late_.any()) look_at_late_soon();
  });
}

void Owner::on_value(const net::FrameHeader& header, ByteView payload) {
  FrameReader in(payload);
  const ReplyHead head = in.get<ReplyHead>();
  if (in.failed()) return runtime_.bad_frame("a value", header.source);
  ObjectEntryPtr entry = objects_.borrow({header.source, head.call_id}, false);
  if (head.status == ReplyStatus::kError) {
    Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(in.rest());
    objects_.fail(*entry, record.ok() ? Error::make(*record) : record.error_ptr());
    return;
  }
  const Arrival arrival = holds_.begin(header.source, head.hold);
  detail::Value value = values_.read(in, arrival);
  holds_.end(arrival);
  if (in.failed())
    objects_.fail(*entry, make_error<SerializationError>("a value that does not decode came from its owner"));
  else objects_.complete(*entry, std::move(value));
}

// ---------------------------------------------------------------------------------------------------------------- ends

void Owner::process_died(ProcessId process, const std::function<ErrorPtr()>& owner_died) {
  holds_.process_died(process);
  died([process](ProcessId one) { return one == process; }, owner_died);
}

void Owner::node_died(std::uint32_t node, const std::function<ErrorPtr()>& owner_died) {
  holds_.node_died(node);
  died([node](ProcessId one) { return one.node == node; }, owner_died);
}

void Owner::died(const ObjectTable::Whose& gone, const std::function<ErrorPtr()>& owner_died) {
  late_.drop_if(gone);
  objects_.died(gone, owner_died);
  if (!objects_.has_borrowers()) return;
  runtime_.add_timer(runtime_.deadline_after(kBorrowGrace), [this, gone] { objects_.drop_borrowers(gone); });  // OW-2
}

void Owner::begin_shutdown(const ErrorPtr& why) {
  const bool nobody_settles = why->code() == ErrorCode::kNodeDied;  // whoever waits only later would wait for ever
  objects_.for_each([&](ObjectEntry& entry) {
    if (entry.state() != ObjectEntry::kPending || entry.producer) return;
    if (entry.waiters || nobody_settles) objects_.fail(entry, why);
  });
}

void Owner::clear() {
  holds_.clear();
  late_.drop_if([](ProcessId) { return true; });
  objects_.forget_others();
}

}  // namespace troupe::worker
