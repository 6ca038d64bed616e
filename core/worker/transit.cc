#include "core/worker/transit.h"

#include <fmt/format.h>

#include "core/base/log.h"
#include "core/worker/actor_clients.h"
#include "core/worker/calls.h"
#include "core/worker/core.h"
#include "core/worker/task_submitter.h"

namespace troupe::worker {

namespace {

ErrorPtr lost(const std::string& what) { return make_error<ObjectLostError>(what); }

}  // namespace

// ------------------------------------------------------------------------------------------------------------------ sending

void Transit::write(FrameWriter& out, const detail::Value& value, Outgoing& hold) {
  ValueHead head;
  const detail::Attachments* attached = value.attachments.get();
  head.body = value.large_body ? 0 : std::uint32_t(value.body.size());
  head.body_in_buffer = value.large_body ? 1 : 0;
  if (attached) {
    head.refs = std::uint32_t(attached->objects.size());
    head.handles = std::uint32_t(attached->handles.size());
  }
  const std::size_t buffers = (attached ? attached->buffers.size() : 0) + head.body_in_buffer;
  head.buffers = std::uint16_t(std::min<std::size_t>(buffers, 0xFFFF));
  out.put(head);
  auto put_buffer = [&](const detail::BufferPtr& buffer) {
    BufferEntry& entry = buffer_of(buffer);
    if (entry.pin && entry.desc.node == core_.self().node) core_.store().mark_shared(entry.pin);
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
      if (entry.owned && hold.destination != core_.self() && hold.destination != kHead && !core_.courier().is_dead(hold.destination)) core_.objects().grant(entry, hold.destination);
      else hold.objects.push_back(object);
    }
    for (const auto& handle : attached->handles) {
      const std::vector<std::byte> bytes = wire::encode_message(core_.actors().describe(handle));
      out.put(std::uint32_t(bytes.size()));
      out.bytes(bytes.data(), bytes.size());
      hold.handles.push_back(handle);
    }
  }
  if (!value.large_body) out.bytes(value.body.data(), value.body.size());
}

std::uint64_t Transit::hold(Outgoing outgoing) {
  if (outgoing.empty() || core_.courier().is_dead(outgoing.destination)) return 0;
  holds_.emplace(++last_hold_, std::move(outgoing));
  return last_hold_;
}

void Transit::acknowledged(ByteView payload) {
  FrameReader in(payload);
  while (in.left() >= 8) holds_.erase(in.get<std::uint64_t>());
}

// ---------------------------------------------------------------------------------------------------------------- receiving

std::uint64_t Transit::begin_arrival(ProcessId source, std::uint64_t token) {
  reading_from_ = source;
  if (token == 0) return 0;
  arrivals_.emplace(++last_arrival_, Arrival{source, token, 1});
  return last_arrival_;
}

void Transit::expect(std::uint64_t arrival) {
  if (auto found = arrivals_.find(arrival); found != arrivals_.end()) ++found->second.missing;
}

void Transit::end_arrival(std::uint64_t arrival) { arrival_confirmed(arrival); }

void Transit::arrival_confirmed(std::uint64_t arrival) {
  auto found = arrivals_.find(arrival);
  if (found == arrivals_.end() || --found->second.missing > 0) return;
  const Arrival done = found->second;
  arrivals_.erase(found);
  core_.courier().control(done.source, Control::kHoldAck, 0, 0, std::as_bytes(std::span(&done.token, 1)));
}

void Transit::discard(const ReplyHead& head, FrameReader& in, ProcessId source) {
  if (head.values == 0) return;
  const std::uint64_t arrival = begin_arrival(source, head.hold);
  for (std::uint16_t i = 0; i < head.values && !in.failed(); ++i) (void)read(in, arrival);
  end_arrival(arrival);
}

detail::Value Transit::read(FrameReader& in, std::uint64_t arrival) {
  detail::Value value;
  const ValueHead head = in.get<ValueHead>();
  const std::size_t least = std::size_t(head.buffers) * sizeof(wire::BufferDesc) + std::size_t(head.refs) * sizeof(ObjectId) + std::size_t(head.handles) * 4 + head.body;
  if (in.failed() || least > in.left() || (head.body_in_buffer && head.buffers == 0)) {
    in.fail();
    return value;
  }
  const ProcessId source = reading_from_;
  if (head.buffers || head.refs || head.handles) {
    auto attachments = std::make_unique<detail::Attachments>();
    attachments->buffers.reserve(head.buffers);
    for (std::uint32_t i = 0; i < head.buffers; ++i) attachments->buffers.push_back(buffer(in.get<wire::BufferDesc>(), arrival));
    attachments->objects.reserve(head.refs);
    for (std::uint32_t i = 0; i < head.refs; ++i) attachments->objects.push_back(object(in.get<ObjectId>(), source, arrival));
    for (std::uint32_t i = 0; i < head.handles && !in.failed(); ++i) {
      const std::uint32_t size = in.get<std::uint32_t>();
      const std::byte* bytes = in.take(size);
      Result<wire::HandleDesc> desc = bytes ? wire::decode_message<wire::HandleDesc>({bytes, size}) : Result<wire::HandleDesc>(SerializationError("cut off"));
      if (!desc.ok()) { in.fail(); break; }
      attachments->handles.push_back(handle(*desc, arrival));
    }
    if (head.body_in_buffer) {
      value.large_body = std::move(attachments->buffers.back());
      attachments->buffers.pop_back();
    }
    if (!attachments->empty()) value.attachments = std::move(attachments);
  }
  if (const std::byte* body = in.take(head.body); body && !head.body_in_buffer) value.body = detail::Bytes(body, head.body);
  return value;
}

detail::ObjectPtr Transit::object(ObjectId id, ProcessId source, std::uint64_t arrival) {
  ObjectTable& table = core_.objects();
  if (id.maker == core_.self()) {
    if (ObjectEntryPtr own = table.find_owned(id)) return detail::ObjectPtr(own.get());
    ObjectEntry* gone = table.make_owned();
    table.fail(*gone, lost("the object " + to_string(id) + " is gone: nobody held a reference to it"));
    return detail::ObjectPtr::adopt(gone);
  }
  ObjectEntryPtr entry = table.borrow(id, source == id.maker);
  if (core_.courier().is_dead(id.maker)) table.fail(*entry, make_error<OwnerDiedError>("the owner of object " + to_string(id) + " is dead"));
  else if (table.needs_confirmation(*entry, arrival)) expect(arrival);
  return detail::ObjectPtr(entry.get());
}

void Transit::borrowed(ObjectId id) {
  for (std::uint64_t arrival : core_.objects().confirmed(id)) arrival_confirmed(arrival);
}

detail::HandlePtr Transit::handle(const wire::HandleDesc& desc, std::uint64_t arrival) {
  bool wait = false;
  detail::HandlePtr handle = core_.actors().handle(desc, arrival, wait);
  if (wait) expect(arrival);
  return handle;
}

// ------------------------------------------------------------------------------------------------------------ control plane

wire::ValueDesc Transit::describe(const detail::Value& value, Outgoing& hold) {
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

detail::Value Transit::restore(const wire::ValueDesc& desc, std::uint64_t arrival) {
  detail::Value value;
  value.body = detail::Bytes(desc.body.data(), desc.body.size());
  if (desc.buffers.empty() && desc.refs.empty() && desc.handles.empty()) return value;
  auto attachments = std::make_unique<detail::Attachments>();
  for (const auto& one : desc.buffers) attachments->buffers.push_back(buffer(one, arrival));
  for (const auto& ref : desc.refs) attachments->objects.push_back(object(ref.id, kHead, arrival));
  for (const auto& one : desc.handles) attachments->handles.push_back(handle(one, arrival));
  if (desc.body_in_buffer && !attachments->buffers.empty()) {
    value.large_body = std::move(attachments->buffers.back());
    attachments->buffers.pop_back();
  }
  value.attachments = std::move(attachments);
  return value;
}

// ------------------------------------------------------------------------------------------------------------------ buffers

detail::BufferPtr Transit::buffer(const wire::BufferDesc& desc, std::uint64_t arrival) {
  auto* entry = new BufferEntry(core_);
  detail::BufferPtr pointer(entry);
  entry->desc = desc;
  entry->set_size(desc.size);
  if (desc.node == core_.self().node) {
    entry->pin = core_.store().try_pin({desc.node, desc.slot, desc.generation});
    entry->place = entry->pin && entry->pin.size() >= desc.size ? BufferEntry::Place::kLocal : BufferEntry::Place::kLost;
    if (entry->place == BufferEntry::Place::kLocal) entry->set_memory(entry->pin.data(), desc.size);
    return pointer;
  }
  entry->place = BufferEntry::Place::kRemote;
  expect(arrival);
  core_.requests().send<wire::Empty>(daemon_of(desc.node), wire::Method::kStoreHold, wire::StoreHoldRequest{core_.self(), {desc}},
                                     [this, pointer, arrival](Result<wire::Empty> reply) {
                                       BufferEntry& held = buffer_of(pointer);
                                       if (reply.ok()) held.held = true;
                                       else if (held.place == BufferEntry::Place::kRemote) held.place = BufferEntry::Place::kLost;
                                       arrival_confirmed(arrival);
                                     });
  return pointer;
}

void Transit::dropped(BufferEntry& entry) {
  if (entry.held) core_.courier().notice(daemon_of(entry.desc.node), wire::Method::kStoreUnhold, wire::StoreHoldRequest{core_.self(), {entry.desc}});
}

void Transit::fetch(BufferEntry& entry, int attempt) {
  entry.fetching = true;
  detail::BufferPtr keep(&entry);
  core_.requests().send<wire::StoreFetchReply>(core_.daemon(), wire::Method::kStoreFetch, wire::StoreFetchRequest{entry.desc},
                                               [this, keep, attempt](Result<wire::StoreFetchReply> reply) {
    BufferEntry& entry = buffer_of(keep);
    if (reply.ok()) {
      entry.pin = core_.store().try_pin({reply->local.node, reply->local.slot, reply->local.generation});
      if (entry.pin) {
        entry.place = BufferEntry::Place::kLocal;
        entry.set_memory(entry.pin.data(), entry.desc.size);
      } else if (attempt < 8) {
        return fetch(entry, attempt + 1);  // the copy was evicted before we pinned it
      }
      // Our pin keeps it now; the daemon's hold for us would keep it beyond the last use of it.
      core_.courier().notice(core_.daemon(), wire::Method::kStoreUnhold, wire::StoreHoldRequest{core_.self(), {reply->local}});
    }
    if (entry.place != BufferEntry::Place::kLocal) entry.place = BufferEntry::Place::kLost;
    fetched(entry);
  });
}

void Transit::fetched(BufferEntry& entry) {
  entry.fetching = false;
  for (WaitNode* node : std::exchange(entry.waiters, {}))
    if (node->group && node->group->missing > 0 && --node->group->missing == 0) node->group->waiter->notify();
}

Result<bool> Transit::fetch_all(const detail::Value& value, exec::Deadline deadline) {
  std::vector<BufferEntry*> missing;
  auto check = [&](const detail::BufferPtr& buffer) {
    if (buffer && !buffer->data()) missing.push_back(&buffer_of(buffer));
  };
  check(value.large_body);
  if (value.attachments)
    for (const auto& buffer : value.attachments->buffers) check(buffer);
  if (missing.empty()) return true;
  exec::Waiter waiter(core_);
  WaitGroup group{&waiter, 0};
  std::vector<WaitNode> nodes(missing.size());
  bool waits = false;
  {
    CoreLock lock(core_);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      BufferEntry& entry = *missing[i];
      if (entry.place == BufferEntry::Place::kRemote) {
        nodes[i].group = &group;
        ++group.missing;
        entry.waiters.push_back(&nodes[i]);
        if (!entry.fetching) fetch(entry, 0);
      }
    }
    waits = group.missing > 0;
  }
  const bool arrived = !waits || waiter.wait(deadline);
  CoreLock lock(core_);
  for (std::size_t i = 0; i < missing.size(); ++i) std::erase(missing[i]->waiters, &nodes[i]);
  if (!arrived && group.missing > 0) return false;
  for (BufferEntry* entry : missing)
    if (entry->place == BufferEntry::Place::kLost)
      return lost(fmt::format("the memory of the object (buffer {}.{} of node {}) is gone and could not be read again", entry->desc.slot, entry->desc.generation, entry->desc.node));
  return true;
}

// ------------------------------------------------------------------------------------------------------------------- deaths

void Transit::process_died(ProcessId process) {
  erase_if(holds_, [&](auto& one) { return one.second.destination == process; });
  erase_if(arrivals_, [&](auto& one) { return one.second.source == process; });
}

void Transit::node_died(std::uint32_t node) {
  erase_if(holds_, [&](auto& one) { return one.second.destination.node == node; });
  erase_if(arrivals_, [&](auto& one) { return one.second.source.node == node; });
}

void Transit::let_go() {
  arrivals_.clear();
  auto held = std::exchange(holds_, {});  // what it held comes back here
}

// ------------------------------------------------------------------------------------------------------------- frames of refs

void Transit::send_release(ProcessId owner, ObjectId id, std::uint32_t grants) {
  struct { ObjectId id; std::uint64_t grants; } release{id, grants};
  core_.courier().control(owner, Control::kRelease, 0, 0, std::as_bytes(std::span(&release, 1)));
}

void Transit::send_borrow(ProcessId owner, ObjectId id, std::uint64_t) {
  core_.courier().control(owner, Control::kBorrow, 0, 0, std::as_bytes(std::span(&id, 1)));
}

void Transit::send_value_request(ProcessId owner, ObjectId id) {
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kValueRequest);
  core_.courier().send(owner, header, std::as_bytes(std::span(&id, 1)));
}

void Transit::on_value_request(const net::FrameHeader& header, ByteView payload) {
  FrameReader in(payload);
  const ObjectId id = in.get<ObjectId>();
  if (in.failed() || core_.objects().value_wanted(header.source, id, id.seq)) return;
  ReplyHead head{.call_id = id.seq, .status = ReplyStatus::kError};
  FrameWriter out(core_.courier().scratch());
  out.put(head);
  const auto bytes = wire::encode_message(lost("the object " + to_string(id) + " is gone: its owner keeps it no more")->record());
  out.bytes(bytes.data(), bytes.size());
  net::FrameHeader answer;
  answer.kind = std::uint8_t(wire::FrameKind::kValue);
  core_.courier().send(header.source, answer, out.view());
}

void Transit::send_value(ProcessId reader, std::uint64_t token, ObjectEntry& entry) {
  FrameWriter out(core_.courier().scratch());
  ReplyHead head{.call_id = token};
  out.put(head);
  if (entry.state() == ObjectEntry::kFailed) {
    head.status = ReplyStatus::kError;
    const auto bytes = wire::encode_message(entry.error->record());
    out.bytes(bytes.data(), bytes.size());
  } else {
    Outgoing outgoing(reader);
    head.values = 1;
    write(out, entry.value, outgoing);
    head.hold = hold(std::move(outgoing));
  }
  out.patch(0, head);
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kValue);
  core_.courier().send(reader, header, out.view());
}

void Transit::on_value(const net::FrameHeader& header, ByteView payload) {
  FrameReader in(payload);
  const ReplyHead head = in.get<ReplyHead>();
  if (in.failed()) return;
  ObjectEntryPtr entry = core_.objects().borrow({header.source, head.call_id}, false);
  if (head.status == ReplyStatus::kError) {
    Result<ErrorRecord> record = wire::decode_message<ErrorRecord>(in.rest());
    core_.objects().fail(*entry, record.ok() ? Error::make(*record) : record.error_ptr());
    return;
  }
  const std::uint64_t arrival = begin_arrival(header.source, head.hold);
  detail::Value value = read(in, arrival);
  end_arrival(arrival);
  if (in.failed()) core_.objects().fail(*entry, make_error<SerializationError>("a value that does not decode came from its owner"));
  else core_.objects().complete(*entry, std::move(value));
}

// -------------------------------------------------------------------------------------------------------- effects upstairs

void Transit::dependency_ready(PendingCall& call, ObjectEntry&) {
  if (--call.unresolved > 0) return;
  if (call.kind == CallKind::kTask) core_.tasks().arguments_ready(call);
  else core_.actors().arguments_ready(call);
}

void Transit::run_callback(std::function<void()> callback) { core_.run_later(std::move(callback)); }

void Transit::producer_unwanted(PendingCall& call, ObjectEntry& entry) {
  if (call.single == &entry) call.single = nullptr;
  for (ObjectEntry*& one : call.several)
    if (one == &entry) one = nullptr;
}

}  // namespace troupe::worker
