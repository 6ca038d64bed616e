#include "core/owner/buffers.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/owner/objects.h"
#include "core/runtime/runtime.h"
#include "core/runtime/waits.h"

namespace troupe::worker {

namespace {
/// A copy may be evicted before it is pinned here; so many times it is fetched again.
constexpr int kFetchAttempts = 8;

/// Does this error say that the memory is nowhere any more? Any other one may pass (OB-3).
bool is_gone(ErrorCode code) {
  return code == ErrorCode::kObjectLost || code == ErrorCode::kNodeDied || code == ErrorCode::kWorkerCrashed;
}
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
  entry.state = BufferEntry::State::kLocal;
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
    if (!pin_here(*entry, {desc.node, desc.slot, desc.generation})) {  // OB-2
      entry->state = BufferEntry::State::kRemote;
      entry->arrival = arrival;
      holds_.expect(arrival);
      begin_fetch(*entry);
      fetch(*entry, 0);
    }
    return pointer;
  }
  entry->state = BufferEntry::State::kRemote;
  holds_.expect(arrival);
  const wire::StoreHoldRequest request{runtime_.self(), {desc}};
  runtime_.requests().send<wire::Empty>(
      daemon_of(desc.node), wire::Method::kStoreHold, request, [this, pointer, arrival](Result<wire::Empty> reply) {
        BufferEntry& held = buffer_of(pointer);
        if (reply.ok()) held.held = true;
        else if (held.state == BufferEntry::State::kRemote) failed(held, reply.error_ptr());
        holds_.confirmed(arrival);
      });
  return pointer;
}

/// The entry's memory is this buffer of this node. False: it cannot be pinned now.
bool BufferTable::pin_here(BufferEntry& entry, store::BufferId local) {
  entry.pin = runtime_.store().try_pin(local);
  if (!entry.pin) return false;
  const bool whole = entry.pin.size() >= entry.desc.size;  // a description that claims more than there is
  entry.state = whole ? BufferEntry::State::kLocal : BufferEntry::State::kLost;
  if (whole) entry.set_memory(entry.pin.data(), entry.desc.size);
  return true;
}

Runtime& BufferEntry::runtime() const { return table_.runtime(); }

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
  detail::BufferPtr keep(&entry);
  auto done = [this, keep, attempt](Result<wire::StoreFetchReply> reply) {
    BufferEntry& entry = buffer_of(keep);
    if (!reply.ok()) {
      failed(entry, reply.error_ptr());
      return fetched(entry);
    }
    if (!pin_here(entry, {reply->local.node, reply->local.slot, reply->local.generation})) {  // it was evicted before
      if (attempt < kFetchAttempts) return fetch(entry, attempt + 1);
      failed(entry, make_error<ObjectStoreFullError>(
                        fmt::format("a copy of {} bytes was evicted {} times before it could be used", entry.desc.size,
                                    attempt + 1)));
    }
    // Our pin keeps it now; the daemon's hold for us would keep it beyond the last use of it.
    const wire::StoreHoldRequest copy{runtime_.self(), {reply->local}};
    runtime_.frames().notice(runtime_.daemon(), wire::Method::kStoreUnhold, copy);
    fetched(entry);
  };
  runtime_.requests().send<wire::StoreFetchReply>(runtime_.daemon(), wire::Method::kStoreFetch,
                                                  wire::StoreFetchRequest{entry.desc}, std::move(done));
}

void BufferTable::fetched(BufferEntry& entry) {
  const std::unique_ptr<BufferEntry::Fetching> over = std::move(entry.fetching);
  if (const std::uint64_t arrival = std::exchange(entry.arrival, 0)) holds_.confirmed(arrival);
  for (WaitNode* node : over->waiters)
    if (node->group && node->group->missing > 0 && --node->group->missing == 0) node->group->waiter->notify();
  for (auto& callback : over->callbacks) callback();
}

namespace {
std::vector<detail::BufferPtr> missing_of(const detail::Value& value) {
  std::vector<detail::BufferPtr> missing;
  auto check = [&](const detail::BufferPtr& buffer) {
    if (buffer && !buffer->data()) missing.push_back(buffer);
  };
  check(value.large_body);
  if (value.attachments)
    for (const auto& buffer : value.attachments->buffers) check(buffer);
  return missing;
}

/// The waiter's nodes among those who wait for these buffers; taken out when it goes, however that is.
class FetchWait {
 public:
  FetchWait(Runtime& runtime, exec::Waiter& waiter, const std::vector<detail::BufferPtr>& buffers)
      : runtime_(runtime), buffers_(buffers), nodes_(buffers.size()), group_{&waiter, 0} {}
  ~FetchWait() {
    CoreLock lock(runtime_);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (const auto& fetching = buffer_of(buffers_[i]).fetching) std::erase(fetching->waiters, &nodes_[i]);
  }
  WaitNode& next() {
    ++group_.missing;
    WaitNode& node = nodes_[used_++];
    node.group = &group_;
    return node;
  }
  bool over() const { return group_.missing == 0; }

 private:
  Runtime& runtime_;
  const std::vector<detail::BufferPtr>& buffers_;
  std::vector<WaitNode> nodes_;
  WaitGroup group_;
  std::size_t used_ = 0;
};
}  // namespace

void BufferTable::failed(BufferEntry& entry, const ErrorPtr& why) {
  if (is_gone(why->code())) entry.state = BufferEntry::State::kLost;
  if (!entry.story) entry.story = std::make_unique<BufferEntry::Story>();
  entry.story->why = why;
}

void BufferTable::node_died(std::uint32_t node, const ErrorPtr& error) {
  node_deaths_.emplace(node, NodeDeath{error, exec::Deadline::clock::now()});
}

void BufferTable::made_by(const detail::Value& value, const std::function<std::string()>& call) {
  std::string name;
  const auto tell = [&](const detail::BufferPtr& buffer) {
    if (!buffer || buffer_of(buffer).desc.node == runtime_.self().node) return;
    BufferEntry& entry = buffer_of(buffer);
    if (name.empty()) name = call();
    if (!entry.story) entry.story = std::make_unique<BufferEntry::Story>();
    entry.story->made_by = name;
  };
  tell(value.large_body);
  if (value.attachments)
    for (const auto& buffer : value.attachments->buffers) tell(buffer);
}

/// ObjectLostError when one of these is lost, else the error of one that could not be fetched, else null. Lock held,
/// and every one of them that was remote has been fetched.
ErrorPtr BufferTable::error_among(const std::vector<detail::BufferPtr>& buffers) const {
  ErrorPtr passing;
  for (const auto& buffer : buffers) {
    const BufferEntry& entry = buffer_of(buffer);
    if (entry.state == BufferEntry::State::kLost) return lost_error(entry);
    if (entry.state == BufferEntry::State::kRemote && entry.story && entry.story->why) passing = entry.story->why;
  }
  return passing;
}

/// Whose result it was, where it lay, and what became of that.
ErrorPtr BufferTable::lost_error(const BufferEntry& entry) const {
  ErrorRecord record;
  record.code = ErrorCode::kObjectLost;
  const bool named = entry.story && !entry.story->made_by.empty();
  record.message = fmt::format("{} is lost: its memory (buffer {}.{} of node {}, {} bytes) ",
                               named ? "the result of " + entry.story->made_by : "the object", entry.desc.slot,
                               entry.desc.generation, entry.desc.node, entry.desc.size);
  if (const auto death = node_deaths_.find(entry.desc.node); death != node_deaths_.end()) {
    const std::chrono::duration<double> since = exec::Deadline::clock::now() - death->second.at;
    record.context.node = death->second.error->context().node;
    record.message += fmt::format("went {:.1f} s ago with its node: {}", since.count(), death->second.error->message());
  } else {
    record.message += "is gone and could not be read again";
    if (entry.story && entry.story->why) record.message += ": " + entry.story->why->message();
  }
  if (named) record.message += "; it is not made again by itself";
  return Error::make(std::move(record));
}

bool BufferTable::all_here(const detail::Value& value) {
  if (value.large_body && !value.large_body->data()) return false;
  if (!value.attachments) return true;
  const auto& buffers = value.attachments->buffers;
  return std::all_of(buffers.begin(), buffers.end(), [](const auto& buffer) { return !buffer || buffer->data(); });
}

Result<bool> BufferTable::fetch_all(const detail::Value& value, exec::Deadline deadline) {
  if (all_here(value)) return true;
  const std::vector<detail::BufferPtr> missing = missing_of(value);
  exec::Waiter waiter(runtime_);
  WaitScope scope(runtime_, waiter);
  FetchWait wait(runtime_, waiter, missing);
  {
    CoreLock lock(runtime_);
    std::vector<BufferEntry*> unasked;
    for (const auto& buffer : missing) {
      BufferEntry& entry = buffer_of(buffer);
      if (entry.state != BufferEntry::State::kRemote) continue;
      if (!entry.fetching) unasked.push_back(&entry);
      begin_fetch(entry).waiters.push_back(&wait.next());
    }
    for (BufferEntry* entry : unasked) fetch(*entry, 0);
  }
  for (;;) {
    {
      CoreLock lock(runtime_);
      scope.check();
      if (wait.over()) {
        if (ErrorPtr error = error_among(missing)) return error;
        return true;
      }
    }
    if (!scope.wait(deadline) && exec::Deadline::clock::now() >= deadline) {
      CoreLock lock(runtime_);
      if (!wait.over()) return false;
    }
  }
}

void BufferTable::fetch_then(const detail::Value& value, std::function<void(const ErrorPtr&)> done) {
  struct Open {
    const BufferTable& table;
    std::vector<detail::BufferPtr> missing;
    std::size_t left = 1;  // this function is one of those that are waited for
    std::function<void(const ErrorPtr&)> done;
    void one_less() {
      if (--left == 0) done(table.error_among(missing));
    }
  };
  auto open = std::make_shared<Open>(Open{*this, missing_of(value), 1, std::move(done)});
  for (const auto& buffer : open->missing) {
    BufferEntry& entry = buffer_of(buffer);
    if (entry.state != BufferEntry::State::kRemote) continue;
    ++open->left;
    const bool asked = entry.fetching != nullptr;
    begin_fetch(entry).callbacks.push_back([open] { open->one_less(); });
    if (!asked) fetch(entry, 0);
  }
  open->one_less();
}

BufferEntry::Fetching& BufferTable::begin_fetch(BufferEntry& entry) {
  if (!entry.fetching) entry.fetching = std::make_unique<BufferEntry::Fetching>();
  return *entry.fetching;
}

}  // namespace troupe::worker
