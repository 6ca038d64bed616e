#include "objectstore/client/client_core.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace troupe::store::detail {
namespace {

LocalLeaseOptions lease_options(const StoreClientOptions& o) {
  return {
      .chunk_bytes = o.chunk_bytes, .chunk_bytes_max = o.chunk_bytes_max, .slots = o.slots, .slots_max = o.slots_max};
}

Status check_size(const UniqueFd& fd, std::uint64_t bytes, const char* what) {
  auto size = file_size(fd);
  if (!size.ok()) return size.error_ptr();
  if (*size < bytes)
    return InvalidArgumentError(std::string("the store's ") + what + " is shorter than its layout says");
  return {};
}

/// In pieces that fit a message each.
void tell_dropped(StoreDaemon& daemon, std::span<const BufferId> ids) {
  for (; !ids.empty(); ids = ids.subspan(std::min(kIdsPerCall, ids.size()))) {
    daemon.maybe_free(ids.first(std::min(kIdsPerCall, ids.size())));
  }
}

void tell_given_back(StoreDaemon& daemon, const LocalLeases::GiveBack& back) {
  std::span<const ReturnedChunk> chunks(back.chunks);
  std::span<const std::uint32_t> slots(back.slots);
  while (!chunks.empty() || !slots.empty()) {
    std::size_t c = std::min(kChunksPerCall, chunks.size()), s = std::min(kSlotsPerCall, slots.size());
    daemon.give_back(chunks.first(c), slots.first(s));
    chunks = chunks.subspan(c);
    slots = slots.subspan(s);
  }
}

// A freer looks at the pin tables for about a microsecond, unless it loses its core in the middle.
constexpr int kDoomedSpins = 200, kDoomedYields = 64;
constexpr auto kOwnFreerLast = std::chrono::seconds(2);  // a thread of this process: it runs when this process does

void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// ---- opening and closing

ClientCore::ClientCore(const StoreLayout& layout, StoreDaemon& daemon, const StoreClientOptions& options)
    : layout_(layout), options_(options), daemon_(&daemon), leases_(lease_options(options)) {}

Result<ClientCore*> ClientCore::create(StoreHandles handles, StoreDaemon& daemon, const StoreClientOptions& options) {
  const StoreLayout& layout = handles.layout;
  if (layout.slots == 0 || layout.slots > kSlotLimitMax || layout.capacity == 0)
    return InvalidArgumentError("not a store's layout");
  std::uint64_t index_bytes = std::uint64_t(layout.slots) * sizeof(IndexEntry),
                pin_bytes = PinTableLayout::bytes(layout.slots);
  for (Status status :
       {check_size(handles.index, index_bytes, "index"), check_size(handles.pins, pin_bytes, "pin table"),
        check_size(handles.arena_read, layout.capacity, "arena"),
        check_size(handles.arena_write, layout.capacity, "arena")}) {
    if (!status.ok()) return status.error_ptr();
  }
  std::unique_ptr<ClientCore, void (*)(ClientCore*)> core(new ClientCore(layout, daemon, options),
                                                          [](ClientCore* c) { delete c; });
  auto index = Mapping::read_write(handles.index, index_bytes);
  if (!index.ok()) return index.error_ptr();
  auto pins = Mapping::read_write(handles.pins, pin_bytes);
  if (!pins.ok()) return pins.error_ptr();
  auto made = Mapping::anonymous(std::uint64_t(layout.slots) * 8);
  if (!made.ok()) return made.error_ptr();
  auto readable = Mapping::read_only(handles.arena_read, layout.capacity);
  if (!readable.ok()) return readable.error_ptr();
  auto writable = WritableSpace::create(std::move(handles.arena_write), layout.capacity);
  if (!writable.ok()) return writable.error_ptr();
  core->index_ = std::move(*index);
  core->pins_ = std::move(*pins);
  core->made_ = std::move(*made);
  core->readable_ = std::move(*readable);
  core->readable_.advise_huge(0, layout.capacity);
  core->writable_ = std::move(*writable);
  core->dropped_.reserve(options.flush_at);
  ForkRegistry::add(*core);
  return core.release();
}

void ClientCore::close() {
  flush();
  {
    std::unique_lock lock(mutex_);
    daemon_ = nullptr;
    calls_ended_.wait(lock,
                      [&] { return calls_ == 0; });  // CC-2; each of them only posts, or has a deadline of the daemon's
  }
  leave();
}

// ---- fork (CC-3)

void ClientCore::before_fork() noexcept {
  mutex_.lock();
  if (writable_) writable_->before_fork();
}

void ClientCore::after_fork_in_parent() noexcept {
  if (writable_) writable_->after_fork_in_parent();
  mutex_.unlock();
}

void ClientCore::after_fork_in_child() noexcept {
  index_.make_private_zero();
  pins_.make_private_zero();
  if (writable_) writable_->after_fork_in_child(!options_.hardened);
  users_.store(~std::uint64_t(0) / 2, std::memory_order_relaxed);  // never deleted: it counts for the parent
  daemon_ = nullptr;
  calls_ = 0;  // those of threads that are not here
  mutex_.unlock();
}

void ClientCore::leave() noexcept {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

// ---- calls of the daemon

StoreDaemon* ClientCore::begin_call_locked() noexcept {
  if (daemon_) ++calls_;
  return daemon_;
}

void ClientCore::end_call() noexcept {
  std::lock_guard lock(mutex_);
  if (--calls_ == 0 && !daemon_) calls_ended_.notify_all();
}

/// call(daemon) outside the mutex, after begin_call_locked.
template <class F>
void ClientCore::post(F&& call) noexcept {
  call();
  end_call();
}

// ---- making

std::uint64_t ClientCore::rounded(std::uint64_t size) const {
  std::uint64_t unit = options_.hardened ? kPageBytes : kCacheLine;
  return std::max(unit, (size + unit - 1) / unit * unit);
}

Result<WritableBuffer> ClientCore::allocate(std::uint64_t size) {
  return size < layout_.large_from ? allocate_small(size) : allocate_large(size);
}

Result<WritableBuffer> ClientCore::allocate_small(std::uint64_t size) {
  const std::uint64_t bytes = rounded(size);
  for (;;) {
    std::unique_lock lock(mutex_);
    // CC-3: also in a forked child, whose leases are its parent's
    if (!daemon_) return Error("the object store is closed");
    if (auto allocation = leases_.take(bytes)) {
      ++made_count_;
      std::uint32_t generation = unpack(entry(allocation->slot).word.load(std::memory_order_relaxed)).generation;
      Made made{generation, allocation->chunk, false};
      auto ahead = leases_.ask_ahead();
      LocalLeases::GiveBack back;
      if (leases_.has_give_back()) back = leases_.take_give_back();
      StoreDaemon* daemon = ahead || !back.empty() ? begin_call_locked() : nullptr;
      lock.unlock();
      if (daemon) {
        post([&] {
          tell_given_back(*daemon, back);
          if (ahead) daemon->lease_ahead(*ahead);
        });
      }
      WritableBuffer buffer = open_buffer({layout_.node, allocation->slot, generation}, allocation->offset, size, made);
      if (options_.hardened) {
        if (Status status = writable_->unprotect({allocation->offset, bytes}); !status.ok()) return status.error_ptr();
      }
      return buffer;
    }
    LeaseRequest request = leases_.next_request(bytes);
    lock.unlock();
    flush();  // what was dropped may be the room that is needed
    if (Status status = take_lease(request); !status.ok()) return status.error_ptr();
  }
}

Status ClientCore::take_lease(const LeaseRequest& request) {
  StoreDaemon* daemon;
  {
    std::lock_guard lock(mutex_);
    daemon = begin_call_locked();
  }
  if (!daemon) return Error("the object store is closed");
  auto lease = daemon->lease(request);
  end_call();
  if (!lease.ok()) return lease.error_ptr();
  if ((request.bytes > 0 && lease->chunk == 0) || (request.slots > 0 && lease->slots.empty())) {
    return ObjectStoreFullError("the daemon gave an empty lease");
  }
  return add_lease(std::move(*lease));
}

/// CC-4
Status ClientCore::add_lease(Lease lease) {
  leases_taken_.fetch_add(1, std::memory_order_relaxed);
  const ReturnedChunk chunk{lease.chunk, 0};
  Status mapped;
  if (chunk.chunk != 0) mapped = writable_->ensure(lease.range);
  if (!mapped.ok()) lease.chunk = 0;
  std::erase_if(lease.slots, [&](std::uint32_t slot) { return slot >= layout_.slots; });
  StoreDaemon* daemon = nullptr;
  {
    std::lock_guard lock(mutex_);
    leases_.add(std::move(lease));
    if (!mapped.ok()) daemon = begin_call_locked();
  }
  if (daemon) post([&] { daemon->give_back({&chunk, 1}, {}); });
  return mapped;
}

Result<WritableBuffer> ClientCore::allocate_large(std::uint64_t size) {
  flush();  // first free, then ask: the range dropped last is warm
  StoreDaemon* daemon;
  {
    std::lock_guard lock(mutex_);
    daemon = begin_call_locked();
    ++made_count_;
  }
  if (!daemon) return Error("the object store is closed");
  auto grant = daemon->allocate(size);
  end_call();
  if (!grant.ok()) return grant.error_ptr();
  if (grant->id.slot >= layout_.slots || grant->range.size < size)
    return Error("the daemon granted something else than was asked");
  // Opened first, so that a mapping that fails gives the grant back.
  WritableBuffer buffer = open_buffer(grant->id, grant->range.offset, size, {grant->id.generation, 0, true});
  if (Status status = writable_->ensure(grant->range); !status.ok()) return status.error_ptr();
  if (options_.hardened) {
    if (Status status = writable_->unprotect({grant->range.offset, rounded(size)}); !status.ok())
      return status.error_ptr();
  }
  return buffer;
}

WritableBuffer ClientCore::open_buffer(BufferId id, std::uint64_t offset, std::uint64_t size, Made m) {
  made(id.slot).store(pack_made(m), std::memory_order_relaxed);
  users_.fetch_add(1, std::memory_order_relaxed);
  WritableBuffer buffer;
  buffer.core_ = this;
  buffer.data_ = writable_->data() + offset;
  buffer.size_ = size;
  buffer.offset_ = offset;
  buffer.id_ = id;
  return buffer;
}

Pin ClientCore::seal(WritableBuffer& buffer) noexcept {
  if (!buffer) return {};
  IndexEntry& e = entry(buffer.id_.slot);
  e.offset.store(buffer.offset_, std::memory_order_relaxed);
  e.size.store(buffer.size_, std::memory_order_relaxed);
  if (options_.hardened) (void)writable_->protect({buffer.offset_, rounded(buffer.size_)});
  touch_block(buffer.id_.slot);
  // SC-4. CC-1: the open buffer's share of users_ becomes the slot's, unless a stale reader counts the slot just now.
  if (pin_count(buffer.id_.slot).fetch_add(1, std::memory_order_relaxed) != 0)
    users_.fetch_sub(1, std::memory_order_relaxed);
  e.word.store(pack({buffer.id_.generation, SlotState::kSealed}), std::memory_order_release);
  buffer.core_ = nullptr;
  return Pin(this, buffer.data_, buffer.size_, buffer.id_);
}

void ClientCore::abandon(WritableBuffer& buffer) noexcept {
  buffer.core_ = nullptr;
  Made m = made_here(buffer.id_.slot);
  {
    std::lock_guard lock(mutex_);
    if (m.shared) dropped_.push_back(buffer.id_);
    else leases_.put_back({buffer.id_.slot, m.chunk, buffer.offset_}, rounded(buffer.size_));
  }
  leave();
}

// ---- pinning

Pin ClientCore::try_pin(BufferId id) noexcept {
  if (id.node != layout_.node || id.slot >= layout_.slots || id.is_nil()) return {};
  touch_block(id.slot);
  if (pin_count(id.slot).fetch_add(1, std::memory_order_seq_cst) == 0)
    users_.fetch_add(1, std::memory_order_relaxed);  // CC-1
  const IndexEntry& e = entry(id.slot);
  std::optional<std::chrono::steady_clock::time_point> give_up;
  for (int spin = 0;; ++spin) {
    const SlotWord word = unpack(e.word.load(std::memory_order_seq_cst));  // SL-3
    if (word.generation != id.generation) break;
    if (word.state == SlotState::kSealed) {
      const std::uint64_t offset = e.offset.load(std::memory_order_relaxed);
      const std::uint64_t size = e.size.load(std::memory_order_relaxed);
      if (offset > layout_.capacity || size > layout_.capacity - offset) break;
      const std::byte* base =
          made_here(id.slot).generation == id.generation ? writable_->data() : readable_.data();  // SC-3
      return Pin(this, base + offset, size, id);
    }
    if (word.state != SlotState::kDoomed) break;
    if (spin < kDoomedSpins) {
      cpu_relax();
      continue;
    }
    const Made mine = made_here(id.slot);
    if (mine.generation != id.generation || mine.shared) {
      if (spin >= kDoomedSpins + kDoomedYields) break;  // the daemon has lost its core, or is stopped: it must be asked
    } else {
      const auto now = std::chrono::steady_clock::now();
      if (!give_up) give_up = now + kOwnFreerLast;
      if (now >= *give_up) break;
    }
    ::sched_yield();
  }
  undo_pin(id.slot);
  return {};
}

/// A freer may have seen the pin and given up: then it must hear of the drop (SL-6).
void ClientCore::undo_pin(std::uint32_t slot) noexcept {
  if (pin_count(slot).fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  const SlotWord now = unpack(entry(slot).word.load(std::memory_order_seq_cst));
  if (now.state == SlotState::kSealed || now.state == SlotState::kDoomed)
    last_drop({layout_.node, slot, now.generation});
  else leave();
}

// ---- dropping

void ClientCore::mark_shared(BufferId id) noexcept {
  Made m = made_here(id.slot);
  if (m.generation != id.generation || m.shared) return;
  std::lock_guard lock(mutex_);
  m = made_here(id.slot);
  if (m.generation != id.generation || m.shared) return;
  m.shared = true;
  entry(id.slot).shared.store(id.generation, std::memory_order_release);  // SL-1: from here on the daemon may free it
  made(id.slot).store(pack_made(m), std::memory_order_relaxed);
  leases_.share(m.chunk);
}

/// This process's count of the slot went to 0.
void ClientCore::last_drop(BufferId id) noexcept {
  StoreDaemon* daemon = nullptr;
  std::vector<BufferId> batch;
  LocalLeases::GiveBack back;
  {
    std::lock_guard lock(mutex_);
    Made m = made_here(id.slot);
    if (!daemon_) {
      // closed: the daemon learns it from this process's end
    } else if (m.generation == id.generation && !m.shared) {
      if (recycle(id, m)) ++recycled_count_;
      if (leases_.tight() && leases_.has_give_back() && (daemon = begin_call_locked())) back = leases_.take_give_back();
    } else {
      dropped_.push_back(id);
      bool large =
          entry(id.slot).size.load(std::memory_order_relaxed) >= options_.flush_at_bytes;  // a hint: it may be gone
      if (large || dropped_.size() >= options_.flush_at) {
        batch.swap(dropped_);
        daemon = begin_call_locked();
      }
    }
  }
  if (daemon) {
    post([&] {
      tell_dropped(*daemon, batch);
      tell_given_back(*daemon, back);
    });
  }
  leave();
}

/// SL-1, SL-3: nobody else knows the id, but another thread of this process may be pinning it again just now.
bool ClientCore::recycle(BufferId id, Made m) noexcept {
  IndexEntry& e = entry(id.slot);
  std::uint64_t expected = pack({id.generation, SlotState::kSealed});
  if (!e.word.compare_exchange_strong(expected, pack({id.generation, SlotState::kDoomed}), std::memory_order_seq_cst))
    return false;
  if (pin_count(id.slot).load(std::memory_order_seq_cst) != 0) {
    e.word.store(pack({id.generation, SlotState::kSealed}), std::memory_order_seq_cst);
    return false;
  }
  std::uint64_t offset = e.offset.load(std::memory_order_relaxed), size = e.size.load(std::memory_order_relaxed);
  e.word.store(pack({next_generation(id.generation), SlotState::kLeased}), std::memory_order_release);
  leases_.put_back({id.slot, m.chunk, offset}, rounded(size));
  return true;
}

void ClientCore::flush() noexcept {
  std::vector<BufferId> batch;
  LocalLeases::GiveBack back;
  StoreDaemon* daemon;
  {
    std::lock_guard lock(mutex_);
    if (dropped_.empty() && !leases_.has_give_back()) return;
    daemon = begin_call_locked();
    if (!daemon) return;
    batch.swap(dropped_);
    back = leases_.take_give_back();
  }
  post([&] {
    tell_dropped(*daemon, batch);
    tell_given_back(*daemon, back);
  });
}

void ClientCore::trim() noexcept {
  {
    std::lock_guard lock(mutex_);
    leases_.trim();
  }
  flush();
}

// ---- state

bool ClientCore::contains(const void* ptr) const noexcept {
  auto inside = [&](const std::byte* base) {
    auto p = reinterpret_cast<std::uintptr_t>(ptr), b = reinterpret_cast<std::uintptr_t>(base);
    return p >= b && p - b < layout_.capacity;
  };
  return inside(readable_.data()) || inside(writable_->data());
}

StoreClientStats ClientCore::stats() const {
  std::lock_guard lock(mutex_);
  return {.made = made_count_,
          .recycled = recycled_count_,
          .leases = leases_taken_.load(std::memory_order_relaxed),
          .chunks_held = leases_.chunks_held(),
          .slots_held = leases_.slots_held(),
          .users = users_.load(std::memory_order_relaxed) - 1};
}

}  // namespace troupe::store::detail
