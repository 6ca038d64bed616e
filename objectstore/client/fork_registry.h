// ForkRegistry: who must act when this process forks (pthread_atfork), for as long as they are entered.
//
// Before the fork every member takes its locks, so that the child does not inherit one that a thread holds which is not
// in the child. Afterwards parent and child release them; the child lets go of what must have one user only.
//
// Thread rule: add and remove from any thread, not from within a member's functions. The order of locks is: the
// registry's, then the members', each in the order of entry.
#pragma once

namespace troupe::store {

class ForkAware {
 public:
  virtual void before_fork() noexcept = 0;
  virtual void after_fork_in_parent() noexcept = 0;
  /// Only system calls and plain memory: the child has one thread, and whatever another held stays held.
  virtual void after_fork_in_child() noexcept = 0;

 protected:
  ~ForkAware() = default;
};

class ForkRegistry {
 public:
  static void add(ForkAware& member);
  static void remove(ForkAware& member);
};

}  // namespace troupe::store
