// StoreClient: a process's door to its node's store. Makes buffers, pins buffers, drops them.
//
// Thread rule: all functions, and the destructors of Pin and WritableBuffer, from any thread. One small process-local
// mutex guards the leased chunks and slots; pinning, copying a pin and sealing take no lock. try_pin, seal, mark_shared
// and the destructors never wait for an answer of the daemon; allocate may (StoreDaemon::lease, StoreDaemon::allocate).
//
// The life of a small buffer (size < layout.large_from): a leased slot and 64-byte aligned bytes of a leased chunk,
// both local, so making one takes no round trip. If its id never left the process (mark_shared was not called), the
// last drop gives slot and bytes back to this client. Otherwise the last drop puts it on a list which flush() hands to
// the daemon. A large buffer is allocated and freed by the daemon.
//
// Invariants
//   SC-1  While a Pin is alive, its bytes stay mapped and unchanged, also after the StoreClient itself is gone.
//   SC-2  An id that may reach another process was marked shared before it left (mark_shared). Unmarked ids may be
//         reused.
//   SC-3  Bytes are writable only through a WritableBuffer. data() of a buffer made elsewhere lies in a mapping without
//         write permission; data() of one made here lies in the standing writable mapping, whose page tables are warm
//         (hardened clients take the permission away at sealing).
//   SC-4  The pin is raised before the word says sealed: a sealed buffer is never free before its maker's Pin was.
//   SC-5  After fork() the child may read and destroy the pins that it inherited and changes nothing by it; what it
//         reads is right as long as the parent keeps its pin. It can neither make nor pin buffers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <troupe/result.h>
#include "objectstore/arena/buffer_id.h"
#include "objectstore/arena/layout.h"
#include "objectstore/client/store_daemon.h"
#include "objectstore/arena/store_handles.h"

namespace troupe::store {

class StoreClient;
namespace detail {
class ClientCore;
}

/// A counted hold on a sealed buffer. Copyable, cheap (one atomic step); empty when default constructed or moved from.
class Pin {
 public:
  Pin() = default;
  Pin(const Pin& other) noexcept;
  Pin(Pin&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), data_(other.data_), size_(other.size_), id_(other.id_) {}
  Pin& operator=(Pin other) noexcept {
    swap(other);
    return *this;
  }
  ~Pin() {
    if (core_) drop();
  }

  explicit operator bool() const noexcept { return core_ != nullptr; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  BufferId id() const noexcept { return id_; }
  void reset() noexcept {
    if (core_) {
      drop();
      core_ = nullptr;
    }
  }
  void swap(Pin& other) noexcept {
    std::swap(core_, other.core_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(id_, other.id_);
  }

 private:
  friend class detail::ClientCore;
  Pin(detail::ClientCore* core, const std::byte* data, std::size_t size, BufferId id)
      : core_(core), data_(data), size_(size), id_(id) {}
  void drop() noexcept;

  detail::ClientCore* core_ = nullptr;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  BufferId id_;
};

/// A buffer being made: writable, not yet visible to anybody. Dropped unsealed, it is given back.
class WritableBuffer {
 public:
  WritableBuffer() = default;
  WritableBuffer(WritableBuffer&& other) noexcept;
  WritableBuffer& operator=(WritableBuffer&& other) noexcept;
  ~WritableBuffer();

  explicit operator bool() const noexcept { return core_ != nullptr; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::span<std::byte> bytes() const noexcept { return {data_, size_}; }
  BufferId id() const noexcept { return id_; }  ///< the id that it will have

 private:
  friend class detail::ClientCore;
  detail::ClientCore* core_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t offset_ = 0;
  BufferId id_;
};

/// Was this library built with TROUPE_HARDENED?
extern const bool kHardenedBuild;

struct StoreClientOptions {
  std::uint32_t flush_at = 64;              ///< drops on the list before it is handed to the daemon by itself
  std::uint64_t flush_at_bytes = 1 << 20;   ///< a dropped buffer of this size is handed over at once
  std::uint64_t chunk_bytes = 256 << 10;    ///< first chunk asked for
  std::uint64_t chunk_bytes_max = 1 << 20;  ///< a busy client's chunks grow to this
  std::uint32_t slots = 256;                ///< first batch of slots
  std::uint32_t slots_max = 1024;
  bool hardened = kHardenedBuild;  ///< take write permission away at sealing; small buffers are then page aligned
};

struct StoreClientStats {
  std::uint64_t made = 0, recycled = 0, leases = 0, chunks_held = 0, slots_held = 0;
  std::uint64_t users = 0;  ///< pinned slots and open buffers
};

class StoreClient {
 public:
  /// Maps the store. daemon must outlive the client (not the pins). Fails when a descriptor cannot be mapped.
  static Result<std::unique_ptr<StoreClient>> create(StoreHandles handles, StoreDaemon& daemon,
                                                     StoreClientOptions options = {});
  /// Hands over what is on the list. Pins that are still alive stay readable; their drop tells nobody.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// Memory for a buffer. May block on the daemon. ObjectStoreFullError when it can never fit or the daemon gave up.
  /// size 0 is a buffer like any other.
  Result<WritableBuffer> allocate(std::size_t size);
  /// Publishes it; from here on the bytes do not change. Never blocks.
  Pin seal(WritableBuffer buffer) noexcept;
  /// Pins a buffer of this node. Empty is no proof that the buffer is lost: it may be freed at this moment, or the
  /// daemon was stopped while it looked whether to free it. Ask the daemon, who knows. No lock, no call, no wait for
  /// the daemon.
  Pin try_pin(BufferId id) noexcept;
  /// Must precede every sending of the pin's id to another process. Idempotent.
  void mark_shared(const Pin& pin) noexcept;
  /// Hands the list of dropped buffers to the daemon. The runtime calls it when idle and about every millisecond when
  /// busy.
  void flush() noexcept;
  /// The answer to StoreDaemon::lease_ahead.
  void add_lease(Lease lease);
  /// Gives empty chunks and spare slots back, then flush(). On the daemon's TrimAsked, or when the process idles. Until
  /// the next lease that is not `tight`, whatever becomes empty goes back at once instead of being kept for reuse.
  void trim() noexcept;
  /// Does ptr lie in the arena (either mapping)? For zero-copy checks.
  bool contains(const void* ptr) const noexcept;
  /// The whole arena, read-only; for readers that have a range instead of an id. Unpinned ranges may change at any
  /// time.
  const std::byte* arena() const noexcept;
  const StoreLayout& layout() const noexcept;
  StoreClientStats stats() const;

 private:
  explicit StoreClient(detail::ClientCore* core) : core_(core) {}
  detail::ClientCore* core_;
};

}  // namespace troupe::store
