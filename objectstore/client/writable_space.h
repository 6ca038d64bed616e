// WritableSpace: the standing writable mapping of what a client ever leased, at one place of its address space: byte n
// of the arena is at data() + n. A range that was mapped once stays mapped, so its page tables are warm when it is
// leased again.
//
// Thread rule: ensure from any thread (own mutex, taken only for ranges); data() is constant.
//
// Invariants
//   WS-1  A mapped stretch is never mapped anew (that would throw away its page tables) and never unmapped; but for a
//         forked child, where it becomes a private view of the same bytes.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>

#include <troupe/result.h>
#include "core/base/fd.h"
#include "objectstore/arena/buffer_id.h"
#include "objectstore/arena/shared_memory.h"

namespace troupe::store {

class WritableSpace {
 public:
  static Result<std::unique_ptr<WritableSpace>> create(UniqueFd arena_write, std::uint64_t capacity);
  /// Makes the range writable (again).
  Status ensure(Range range);
  /// Takes the permission away from whole pages inside the range, until unprotect.
  Status protect(Range range) { return space_.protect(range.offset, range.size, false); }
  Status unprotect(Range range) { return space_.protect(range.offset, range.size, true); }
  std::byte* data() const { return space_.data(); }

  /// Around fork(): the lock is held from the first to one of the other two.
  void before_fork() noexcept { mutex_.lock(); }
  void after_fork_in_parent() noexcept { mutex_.unlock(); }
  /// What is written from now on is the child's own (nothing can be, unless `writable`); the parent's bytes stay
  /// readable.
  void after_fork_in_child(bool writable) noexcept;

 private:
  WritableSpace(UniqueFd fd, Mapping space) : fd_(std::move(fd)), space_(std::move(space)) {}

  UniqueFd fd_;
  Mapping space_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> mapped_;  ///< begin, end; joined where they touch
};

}  // namespace troupe::store
