#include "core/owner/buffers.h"

#include <fmt/format.h>

#include "core/owner/objects.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
/// A copy may be evicted before it is pinned here; so many times it is fetched again.
constexpr int kFetchAttempts = 8;
}  // namespace

Result<detail::BufferPtr> BufferTable::allocate(std::size_t bytes) {
  Result<store::WritableBuffer> memory = runtime_.store().allocate(bytes);
  if (!memory.ok()) return memory.error_ptr();
  auto* entry = new BufferEntry(*this);
  detail::BufferPtr pointer(entry);
  entry->open = *std::move(memory);
  entry->set_size(bytes);
  return pointer;
}

void BufferTable::seal(BufferEntry& entry) {
  const std::size_t size = entry.size();
  entry.pin = runtime_.store().seal(std::move(entry.open));
  const store::BufferId id = entry.pin.id();
  entry.desc = {id.node, id.slot, id.generation, size};
  entry.place = BufferEntry::Place::kLocal;
  entry.set_memory(entry.pin.data(), size);
}

void BufferTable::mark_shared(BufferEntry& entry) {
  if (entry.pin && entry.desc.node == runtime_.self().node) runtime_.store().mark_shared(entry.pin);
}

detail::BufferPtr BufferTable::arrived(const wire::BufferDesc& desc, std::uint64_t arrival) {
  auto* entry = new BufferEntry(*this);
  detail::BufferPtr pointer(entry);
  entry->desc = desc;
  entry->set_size(desc.size);
  if (desc.node == runtime_.self().node) {
    entry->pin = runtime_.store().try_pin({desc.node, desc.slot, desc.generation});
    entry->place =
        entry->pin && entry->pin.size() >= desc.size ? BufferEntry::Place::kLocal : BufferEntry::Place::kLost;
    if (entry->place == BufferEntry::Place::kLocal) entry->set_memory(entry->pin.data(), desc.size);
    return pointer;
  }
  entry->place = BufferEntry::Place::kRemote;
  holds_.expect(arrival);
  const wire::StoreHoldRequest request{runtime_.self(), {desc}};
  runtime_.requests().send<wire::Empty>(
      daemon_of(desc.node), wire::Method::kStoreHold, request, [this, pointer, arrival](Result<wire::Empty> reply) {
        BufferEntry& held = buffer_of(pointer);
        if (reply.ok()) held.held = true;
        else if (held.place == BufferEntry::Place::kRemote) held.place = BufferEntry::Place::kLost;
        holds_.confirmed(arrival);
      });
  return pointer;
}

void BufferEntry::last_released() noexcept { table_.drop(*this); }

void BufferTable::drop(BufferEntry& entry) noexcept {
  // What is dropped is handed back in batches. A thread that drops and then blocks would keep it.
  runtime_.service().flush_soon();
  if (!entry.held) {  // nobody elsewhere is to be told: the pin goes without the lock
    delete &entry;
    return;
  }
  if (runtime_.lock_held()) {
    auto finish = [](void* thing) {
      auto& entry = *static_cast<BufferEntry*>(thing);
      entry.table_.dropped(entry);
    };
    return runtime_.mutex().finish_drop(finish, &entry);
  }
  CoreLock lock(runtime_);
  dropped(entry);
}

void BufferTable::dropped(BufferEntry& entry) {
  const wire::StoreHoldRequest held{runtime_.self(), {entry.desc}};
  runtime_.frames().notice(daemon_of(entry.desc.node), wire::Method::kStoreUnhold, held);
  delete &entry;
}

void BufferTable::fetch(BufferEntry& entry, int attempt) {
  entry.fetching = true;
  detail::BufferPtr keep(&entry);
  auto done = [this, keep, attempt](Result<wire::StoreFetchReply> reply) {
    BufferEntry& entry = buffer_of(keep);
    if (reply.ok()) {
      entry.pin = runtime_.store().try_pin({reply->local.node, reply->local.slot, reply->local.generation});
      if (entry.pin) {
        entry.place = BufferEntry::Place::kLocal;
        entry.set_memory(entry.pin.data(), entry.desc.size);
      } else if (attempt < kFetchAttempts) {
        return fetch(entry, attempt + 1);  // the copy was evicted before we pinned it
      }
      // Our pin keeps it now; the daemon's hold for us would keep it beyond the last use of it.
      const wire::StoreHoldRequest copy{runtime_.self(), {reply->local}};
      runtime_.frames().notice(runtime_.daemon(), wire::Method::kStoreUnhold, copy);
    }
    if (entry.place != BufferEntry::Place::kLocal) entry.place = BufferEntry::Place::kLost;
    fetched(entry);
  };
  runtime_.requests().send<wire::StoreFetchReply>(runtime_.daemon(), wire::Method::kStoreFetch,
                                                  wire::StoreFetchRequest{entry.desc}, std::move(done));
}

void BufferTable::fetched(BufferEntry& entry) {
  entry.fetching = false;
  for (WaitNode* node : std::exchange(entry.waiters, {}))
    if (node->group && node->group->missing > 0 && --node->group->missing == 0) node->group->waiter->notify();
}

Result<bool> BufferTable::fetch_all(const detail::Value& value, exec::Deadline deadline) {
  std::vector<BufferEntry*> missing;
  auto check = [&](const detail::BufferPtr& buffer) {
    if (buffer && !buffer->data()) missing.push_back(&buffer_of(buffer));
  };
  check(value.large_body);
  if (value.attachments)
    for (const auto& buffer : value.attachments->buffers) check(buffer);
  if (missing.empty()) return true;
  exec::Waiter waiter(runtime_);
  WaitGroup group{&waiter, 0};
  std::vector<WaitNode> nodes(missing.size());
  bool waits = false;
  {
    CoreLock lock(runtime_);
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
  CoreLock lock(runtime_);
  for (std::size_t i = 0; i < missing.size(); ++i) std::erase(missing[i]->waiters, &nodes[i]);
  if (!arrived && group.missing > 0) return false;
  for (BufferEntry* entry : missing)
    if (entry->place == BufferEntry::Place::kLost)
      return make_error<ObjectLostError>(fmt::format(
          "the memory of the object (buffer {}.{} of node {}) is gone and could not be read again", entry->desc.slot,
          entry->desc.generation, entry->desc.node));
  return true;
}

}  // namespace troupe::worker
