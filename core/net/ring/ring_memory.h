// Shared memory of the transport: sealed memfds and their mappings.
//
// A memfd that comes from another process is mapped only when it has exactly the expected size and can no longer shrink
// (F_SEAL_SHRINK): reading it can then never fault, whatever the other process does.
//
// Thread rule: plain values.
#pragma once
#include <cstddef>
#include <memory>

#include <troupe/result.h>
#include "core/base/fd.h"

namespace troupe::net {

/// A memfd of that size, zeroed, sealed against changes of its size.
Result<UniqueFd> create_shared(const char* name, std::size_t size);

/// A shared, writable mapping of a whole memfd.
class SharedMapping {
 public:
  SharedMapping() = default;
  /// InvalidArgumentError when fd is not a sealed memfd of a size from min to max.
  static Result<SharedMapping> open(int fd, std::size_t size_min, std::size_t size_max);

  std::byte* data() const noexcept { return region_ ? region_->data : nullptr; }
  std::size_t size() const noexcept { return region_ ? region_->size : 0; }

 private:
  struct Region {
    std::byte* data = nullptr;
    std::size_t size = 0;
    Region(std::byte* at, std::size_t bytes) : data(at), size(bytes) {}
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    ~Region();
  };
  // Shared, because under ThreadSanitizer the two ends of a pair in one process use one mapping: the tool knows memory
  // by its address and would not see that the ends synchronize.
  std::shared_ptr<Region> region_;
};

}  // namespace troupe::net
