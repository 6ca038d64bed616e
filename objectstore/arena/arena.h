// Arena: the memory of one node's store, as the daemon holds it. One memfd, sealed against shrinking and growing, never
// a named segment. Pages exist only where they were reserved: a page that the machine cannot give is an error of
// reserve(), never a SIGBUS in somebody's memcpy. Linux grants shared pages beyond what it has and then kills somebody,
// so reserve() asks first how much is available.
//
// Thread rule: reserve and populate may run on several threads at once, but not on an event loop: both take as long as
// the kernel needs to clear pages (0.1 to 1 s a GiB). is_reserved, first_unpopulated and reserved may run beside them.
// Everything else is constant after create.
//
// Invariants
//   AR-1  A range that was handed out is wholly reserved.
//   AR-2  A mapping of read_only_fd is not writable and cannot be made so, so that a stray write of a reader faults. It
//         is no protection against intent: a process of the same user can open the memfd anew through /proc, and every
//         client holds the writable descriptor besides, for the buffers that it makes.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <troupe/result.h>
#include "core/base/fd.h"
#include "objectstore/arena/buffer_id.h"
#include "objectstore/arena/machine_memory.h"
#include "objectstore/arena/shared_memory.h"

namespace troupe::store {

/// How pages come into being: `huge` by touching them through the mapping, else in the file.
using MakePages = std::function<Status(const UniqueFd& file, const Mapping& map, Range range, bool huge)>;
Status make_pages_of_file(const UniqueFd& file, const Mapping& map, Range range, bool huge);

struct ArenaOptions {
  std::uint64_t capacity = 0;  ///< bytes; rounded down to pages
  bool populate = false;       ///< touch everything at once (tests, benches); else reserve() and populate() as needed
  std::uint64_t keep_free = 128 << 20;  ///< bytes of the machine's memory that are never taken
  std::function<std::uint64_t()> available = [] { return machine_memory_available(); };
  MakePages make_pages = make_pages_of_file;
};

class Arena {
 public:
  static Result<std::unique_ptr<Arena>> create(ArenaOptions options);

  /// Makes sure that the pages of the range exist, in steps of at most 32 MiB. ObjectStoreFullError when the machine
  /// has none left. Returns early, without error, when `stop` becomes true.
  Status reserve(Range range, const std::atomic<bool>* stop = nullptr);
  /// Reserves and touches every page of the range, in steps of at most 2 MiB. Reserved and unreserved ranges alike;
  /// contents do not change. Returns early, without error, when `stop` becomes true.
  Status populate(Range range, const std::atomic<bool>* stop = nullptr);
  bool is_reserved(Range range) const;
  /// The first stretch of the range that was never populated.
  std::optional<Range> first_unpopulated(Range range) const;

  std::uint64_t capacity() const { return capacity_; }
  /// Bytes that were reserved: the memory that this store holds from the machine.
  std::uint64_t reserved() const { return reserved_bytes_.load(std::memory_order_relaxed); }
  std::byte* data() const { return map_.data(); }  ///< the daemon's read-write mapping of all of it
  const UniqueFd& fd() const { return fd_; }
  const UniqueFd& read_only_fd() const { return read_only_fd_; }

 private:
  Arena() = default;
  Range bytes_of_steps(std::uint64_t first, std::uint64_t last) const;
  void raise(std::uint64_t step, std::uint8_t to);
  Status check_available(Range range) const;

  ArenaOptions options_;
  std::uint64_t capacity_ = 0;
  UniqueFd fd_, read_only_fd_;
  Mapping map_;
  bool huge_ = false;                             ///< huge pages can be had by advice
  std::vector<std::atomic<std::uint8_t>> steps_;  ///< 2 MiB each: absent, reserved, populated; only rises
  std::atomic<std::uint64_t> reserved_bytes_{0};
};

}  // namespace troupe::store
