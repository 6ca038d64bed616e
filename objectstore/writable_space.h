// WritableSpace: the standing writable mapping of what a client ever leased, at one place of its address space: byte n
// of the arena is at data() + n. A range that was mapped once stays mapped, so its page tables are warm when it is
// leased again.
//
// Thread rule: ensure from any thread (own mutex, taken only for ranges); data() is constant.
//
// Invariants
//   WS-1  A mapped stretch is never mapped anew (that would throw away its page tables) and never unmapped.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>

#include <troupe/result.h>
#include "core/base/fd.h"
#include "objectstore/buffer_id.h"
#include "objectstore/shared_memory.h"

namespace troupe::store {

class WritableSpace {
 public:
  static Result<std::unique_ptr<WritableSpace>> create(UniqueFd arena_write, std::uint64_t capacity);
  /// Makes the range writable (again).
  Status ensure(Range range);
  /// Takes the permission away from whole pages inside the range, until ensure_writable.
  Status protect(Range range) { return space_.protect(range.offset, range.size, false); }
  Status unprotect(Range range) { return space_.protect(range.offset, range.size, true); }
  std::byte* data() const { return space_.data(); }

 private:
  WritableSpace(UniqueFd fd, Mapping space) : fd_(std::move(fd)), space_(std::move(space)) {}

  UniqueFd fd_;
  Mapping space_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> mapped_;  ///< begin, end; joined where they touch
};

}  // namespace troupe::store
