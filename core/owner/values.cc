#include "core/owner/values.h"

#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
constexpr std::uint32_t kBuffersMax = 0x7FFF'FFFF;   // ValueHead::buffers; frame_size keeps far below it
constexpr std::size_t kHandleBytes = 128;            // an encoded HandleDesc without its texts takes less
}  // namespace

ErrorPtr object_lost(const std::string& what) { return make_error<ObjectLostError>(what); }

// ---------------------------------------------------------------------------------------------------------- hot frames

void ValueCodec::write(FrameWriter& out, const detail::Value& value, Outgoing& hold) {
  ValueHead head;
  const detail::Attachments* attached = value.attachments.get();
  head.body = value.large_body ? 0 : std::uint32_t(value.body.size());
  head.body_in_buffer = value.large_body ? 1 : 0;
  if (attached) {
    head.refs = std::uint32_t(attached->objects.size());
    head.handles = std::uint32_t(attached->handles.size());
  }
  const std::size_t buffers = (attached ? attached->buffers.size() : 0) + head.body_in_buffer;
  head.buffers = std::uint32_t(buffers) & kBuffersMax;
  out.put(head);
  auto put_buffer = [&](const detail::BufferPtr& buffer) {
    BufferEntry& entry = buffer_of(buffer);
    buffers_.mark_shared(entry);
    out.put(entry.desc);
    hold.buffers.push_back(buffer);
  };
  if (attached)
    for (const auto& buffer : attached->buffers) put_buffer(buffer);
  if (value.large_body) put_buffer(value.large_body);
  if (attached) {
    for (const auto& object : attached->objects) {
      ObjectEntry& entry = entry_of(object);
      out.put(entry.id);
      const bool can_be_granted = entry.owned && hold.destination != runtime_.self() && hold.destination != kHead;
      if (can_be_granted && !runtime_.frames().is_dead(hold.destination)) objects_.grant(entry, hold.destination);
      else hold.objects.push_back(object);
    }
    for (const auto& handle : attached->handles) {
      const std::vector<std::byte> bytes = wire::encode_message(calls_->describe(handle));
      out.put(std::uint32_t(bytes.size()));
      out.bytes(bytes.data(), bytes.size());
      hold.handles.push_back(handle);
    }
  }
  if (!value.large_body) out.bytes(value.body.data(), value.body.size());
}

std::size_t ValueCodec::frame_size(const detail::Value& value) {
  std::size_t size = sizeof(ValueHead) + (value.large_body ? sizeof(wire::BufferDesc) : value.body.size());
  if (!value.attachments) return size;
  const detail::Attachments& attached = *value.attachments;
  size += attached.buffers.size() * sizeof(wire::BufferDesc) + attached.objects.size() * sizeof(ObjectId);
  for (const auto& handle : attached.handles) {
    const wire::HandleDesc& desc = calls_->describe(handle);
    size += kHandleBytes + desc.name.size() + desc.class_name.size();
  }
  return size;
}

detail::Value ValueCodec::read(FrameReader& in, const Arrival& arrival) {
  detail::Value value;
  const ValueHead head = in.get<ValueHead>();
  const std::size_t least = std::size_t(head.buffers) * sizeof(wire::BufferDesc) +
                            std::size_t(head.refs) * sizeof(ObjectId) + std::size_t(head.handles) * 4 + head.body;
  if (in.failed() || least > in.left() || (head.body_in_buffer && head.buffers == 0)) {
    in.fail();
    return value;
  }
  if (head.buffers || head.refs || head.handles) {
    auto attachments = std::make_unique<detail::Attachments>();
    attachments->buffers.reserve(head.buffers);
    for (std::uint32_t i = 0; i < head.buffers; ++i)
      attachments->buffers.push_back(buffers_.arrived(in.get<wire::BufferDesc>(), arrival.number));
    attachments->objects.reserve(head.refs);
    for (std::uint32_t i = 0; i < head.refs; ++i) attachments->objects.push_back(object(in.get<ObjectId>(), arrival));
    for (std::uint32_t i = 0; i < head.handles && !in.failed(); ++i) {
      const std::uint32_t size = in.get<std::uint32_t>();
      const std::byte* bytes = in.take(size);
      Result<wire::HandleDesc> desc = bytes ? wire::decode_message<wire::HandleDesc>({bytes, size})
                                            : Result<wire::HandleDesc>(SerializationError("cut off"));
      if (!desc.ok()) { in.fail(); break; }
      attachments->handles.push_back(handle(*desc, arrival.number));
    }
    if (head.body_in_buffer) {
      value.large_body = std::move(attachments->buffers.back());
      attachments->buffers.pop_back();
    }
    if (!attachments->empty()) value.attachments = std::move(attachments);
  }
  if (const std::byte* body = in.take(head.body); body && !head.body_in_buffer)
    value.body = detail::Bytes(body, head.body);
  return value;
}

detail::ObjectPtr ValueCodec::object(ObjectId id, const Arrival& arrival) {
  if (id.maker == runtime_.self()) {
    if (ObjectEntryPtr own = objects_.find_owned(id)) return detail::ObjectPtr(own.get());
    ObjectEntry* gone = objects_.make_owned();
    objects_.fail(*gone, object_lost("the object " + to_string(id) + " is gone: nobody held a reference to it"));
    return detail::ObjectPtr::adopt(gone);
  }
  ObjectEntryPtr entry = objects_.borrow(id, arrival.source == id.maker);
  if (runtime_.frames().is_dead(id.maker))
    objects_.fail(*entry, make_error<OwnerDiedError>("the owner of object " + to_string(id) + " is dead"));
  else if (objects_.needs_confirmation(*entry, arrival.number))
    holds_.expect(arrival.number);
  return detail::ObjectPtr(entry.get());
}

detail::HandlePtr ValueCodec::handle(const wire::HandleDesc& desc, std::uint64_t arrival) {
  bool wait = false;
  detail::HandlePtr handle = calls_->handle(desc, arrival, wait);
  if (wait) holds_.expect(arrival);
  return handle;
}

void ValueCodec::discard(const ReplyHead& head, FrameReader& in, ProcessId source) {
  if (head.values == 0) return;
  const Arrival arrival = holds_.begin(source, head.hold);
  for (std::uint16_t i = 0; i < head.values && !in.failed(); ++i) (void)read(in, arrival);
  holds_.end(arrival);
}

// ---------------------------------------------------------------------------------------------------- control messages

wire::ValueDesc ValueCodec::describe(const detail::Value& value, Outgoing& hold) {
  std::vector<std::byte> memory;
  FrameWriter out(memory);
  write(out, value, hold);
  wire::ValueDesc desc;
  FrameReader in(out.view());
  const ValueHead head = in.get<ValueHead>();
  for (std::uint32_t i = 0; i < head.buffers; ++i) desc.buffers.push_back(in.get<wire::BufferDesc>());
  for (std::uint32_t i = 0; i < head.refs; ++i) desc.refs.push_back({in.get<ObjectId>()});
  for (std::uint32_t i = 0; i < head.handles; ++i) {
    const std::uint32_t size = in.get<std::uint32_t>();
    desc.handles.push_back(*wire::decode_message<wire::HandleDesc>({in.take(size), size}));
  }
  const std::byte* body = in.take(head.body);
  desc.body.assign(body, body + head.body);
  desc.body_in_buffer = head.body_in_buffer;
  return desc;
}

void ValueCodec::add_refs(const detail::Value& value, Outgoing& hold, Refs& refs) {
  std::vector<const detail::Value*> open{&value};  // no recursion: a chain of refs may be longer than a stack
  while (!open.empty()) {
    const detail::Value& next = *open.back();
    open.pop_back();
    if (!next.attachments) continue;
    for (const detail::ObjectPtr& object : next.attachments->objects) {
      ObjectEntry& entry = entry_of(object);
      if (!refs.seen.insert(entry.id).second || entry.state() == ObjectEntry::kFailed) continue;
      if (entry.state() == ObjectEntry::kPending) {
        refs.pending.push_back(object);
        continue;
      }
      const std::size_t body = entry.value.large_body ? 0 : entry.value.body.size();
      if (refs.bytes + body > kRefBytesMax) {
        ++refs.left_out;
        continue;
      }
      refs.bytes += body;
      refs.ready.push_back({entry.id, describe(entry.value, hold)});
      open.push_back(&entry.value);
    }
  }
}

ValueCodec::Copies ValueCodec::copies_of(const std::vector<wire::KeptRef>& refs) {
  Copies copies;
  for (const wire::KeptRef& ref : refs) copies[ref.id] = detail::ObjectPtr::adopt(objects_.make_owned());
  for (const wire::KeptRef& ref : refs) objects_.complete(entry_of(copies[ref.id]), restore(ref.value, copies));
  return copies;
}

detail::Value ValueCodec::restore(const wire::ValueDesc& desc, const Copies& copies, std::uint64_t arrival) {
  detail::Value value;
  value.body = detail::Bytes(desc.body.data(), desc.body.size());
  if (desc.buffers.empty() && desc.refs.empty() && desc.handles.empty()) return value;
  auto attachments = std::make_unique<detail::Attachments>();
  for (const auto& one : desc.buffers) attachments->buffers.push_back(buffers_.arrived(one, arrival));
  for (const auto& ref : desc.refs) {
    const auto copy = copies.find(ref.id);
    attachments->objects.push_back(copy != copies.end() ? copy->second : object(ref.id, {kHead, arrival}));
  }
  for (const auto& one : desc.handles) attachments->handles.push_back(handle(one, arrival));
  if (desc.body_in_buffer && !attachments->buffers.empty()) {
    value.large_body = std::move(attachments->buffers.back());
    attachments->buffers.pop_back();
  }
  value.attachments = std::move(attachments);
  return value;
}

}  // namespace troupe::worker
