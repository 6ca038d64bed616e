// Buffers as attachments of values: memory of this node's store, or the name of memory on another node until it is fetched.
//
//   OPEN --seal--> LOCAL                       made here
//   REMOTE --hold asked--> HELD --fetch--> LOCAL(copy)   arrived from another node; the hold keeps the original there
//   LOST                                       the pin came too late: reading gives ObjectLostError
//
// Thread rule: fetch and hold under the core's lock; data() and size() from any thread.
#pragma once
#include <cstdint>

#include "core/worker/objects.h"
#include "core/wire/messages.h"
#include "objectstore/client.h"

namespace troupe::worker {

class BufferEntry final : public detail::BufferBase {
 public:
  enum class Place : std::uint8_t { kOpen, kLocal, kRemote, kLost };

  explicit BufferEntry(Core& core) : core_(core) {}

  Place place = Place::kOpen;
  wire::BufferDesc desc;                 // where it was made
  store::WritableBuffer open;
  store::Pin pin;                        // local memory: the original, or a copy of a remote one
  bool held = false;                     // the other node's daemon pins it for this process
  bool fetching = false;
  std::vector<WaitNode*> waiters;        // of the fetch

  void set_memory(const std::byte* data, std::size_t size) {
    size_ = size;
    data_.store(data, std::memory_order_release);
  }
  void set_size(std::size_t size) { size_ = size; }

 protected:
  void last_released() noexcept override;

 private:
  Core& core_;
};

inline BufferEntry& buffer_of(const detail::BufferPtr& buffer) { return static_cast<BufferEntry&>(*buffer); }

}  // namespace troupe::worker
