// ClientCore: the part of a StoreClient that pins point to. It lives until the StoreClient and the last pinned slot are
// gone, so a Pin may outlive its StoreClient (client.h SC-1).
//
//     making     allocate, seal, abandon: leased memory, or a large buffer of the daemon's
//     pinning    try_pin, undo_pin: a reader's side of the agreement with whoever frees a slot (layout.h SL-3, SL-5,
//                SL-6); shared memory alone, no lock and no call, unless a pin that is taken back was the last one
//     dropping   last_drop: an own buffer that was never shared is recycled here, any other is told to the daemon
//
// Thread rule: as client.h. Fields above mutex_ are constant or atomic; fields below are guarded by it.
//
// Invariants
//   CC-1  users_ = 1 for the StoreClient + slots with a pin count above 0 + open WritableBuffers; at 0 the core deletes
//         itself.
//   CC-2  No daemon call is made under mutex_, none begins after close(), and close() returns after the last one ended.
//   CC-3  A forked child touches neither index nor pin table of its parent and calls no daemon: it has private zeros in
//         their place and is closed. What it writes into buffers is its own.
//   CC-4  A chunk that cannot be mapped here goes back at once, and whoever asked for it hears why: else one small
//         buffer would lease chunk after chunk until the store is full.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "objectstore/client/client.h"
#include "objectstore/arena/layout.h"
#include "objectstore/client/fork_registry.h"
#include "objectstore/client/local_leases.h"
#include "objectstore/arena/shared_memory.h"
#include "objectstore/client/writable_space.h"

namespace troupe::store::detail {

class ClientCore final : private ForkAware {
 public:
  static Result<ClientCore*> create(StoreHandles handles, StoreDaemon& daemon, const StoreClientOptions& options);
  /// The StoreClient goes: no more calls of the daemon.
  void close();

  Result<WritableBuffer> allocate(std::uint64_t size);
  Pin seal(WritableBuffer& buffer) noexcept;
  void abandon(WritableBuffer& buffer) noexcept;
  Pin try_pin(BufferId id) noexcept;
  void copy_pin(std::uint32_t slot) noexcept { pin_count(slot).fetch_add(1, std::memory_order_relaxed); }
  void drop_pin(BufferId id) noexcept {
    if (pin_count(id.slot).fetch_sub(1, std::memory_order_acq_rel) == 1) last_drop(id);
  }
  void mark_shared(BufferId id) noexcept;
  void flush() noexcept;
  void trim() noexcept;
  Status add_lease(Lease lease);
  bool contains(const void* ptr) const noexcept;
  const std::byte* arena() const noexcept { return readable_.data(); }
  const StoreLayout& layout() const noexcept { return layout_; }
  StoreClientStats stats() const;

 private:
  /// What this process knows of a slot, in one word: generation of the buffer made here, its chunk in leases_, flags.
  struct Made {
    std::uint32_t generation = 0;
    std::uint32_t chunk = 0;  ///< 24 bits
    bool shared = false;
  };
  static std::uint64_t pack_made(Made m) {
    return std::uint64_t(m.generation) << 32 | std::uint64_t(m.chunk) << 8 | (m.shared ? 1 : 0);
  }
  static Made unpack_made(std::uint64_t raw) {
    return {std::uint32_t(raw >> 32), std::uint32_t(raw) >> 8, (raw & 1) != 0};
  }

  ClientCore(const StoreLayout& layout, StoreDaemon& daemon, const StoreClientOptions& options);
  ~ClientCore() { ForkRegistry::remove(*this); }
  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;
  void after_fork_in_child() noexcept override;

  IndexEntry& entry(std::uint32_t slot) const { return reinterpret_cast<IndexEntry*>(index_.data())[slot]; }
  std::atomic<std::uint8_t>& touched(std::uint32_t slot) const {
    return reinterpret_cast<std::atomic<std::uint8_t>*>(pins_.data())[slot / kPinBlockSlots];
  }
  std::atomic<std::uint32_t>& pin_count(std::uint32_t slot) const {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(pins_.data() + PinTableLayout::kTouchedBytes)[slot];
  }
  std::atomic<std::uint64_t>& made(std::uint32_t slot) const {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(made_.data())[slot];
  }
  Made made_here(std::uint32_t slot) const { return unpack_made(made(slot).load(std::memory_order_relaxed)); }
  std::uint64_t rounded(std::uint64_t size) const;

  Result<WritableBuffer> allocate_small(std::uint64_t size);
  Result<WritableBuffer> allocate_large(std::uint64_t size);
  Status take_lease(const LeaseRequest& request);
  WritableBuffer open_buffer(BufferId id, std::uint64_t offset, std::uint64_t size, Made made);
  void touch_block(std::uint32_t slot) noexcept {
    if (touched(slot).load(std::memory_order_relaxed) == 0) touched(slot).store(1, std::memory_order_seq_cst);  // SL-5
  }
  void undo_pin(std::uint32_t slot) noexcept;
  void last_drop(BufferId id) noexcept;
  bool recycle(BufferId id, Made made) noexcept;
  void leave() noexcept;

  StoreDaemon* begin_call_locked() noexcept;
  void end_call() noexcept;
  template <class F>
  void post(F&& call) noexcept;

  const StoreLayout layout_;
  const StoreClientOptions options_;
  Mapping index_, pins_, made_, readable_;
  std::unique_ptr<WritableSpace> writable_;
  std::atomic<std::uint64_t> users_{1};
  std::atomic<std::uint64_t> leases_taken_{0};

  mutable std::mutex mutex_;
  std::condition_variable calls_ended_;
  StoreDaemon* daemon_;
  int calls_ = 0;
  LocalLeases leases_;
  std::vector<BufferId> dropped_;
  std::uint64_t made_count_ = 0, recycled_count_ = 0;
};

}  // namespace troupe::store::detail
