// GuardedStack: makes the stacks of fibers, as Boost.Context wants it: below each lies a guard area that nobody may
// touch, so that a method that runs out of stack faults there instead of writing over the stack below.
//
//   low  | guard area: kStackGuard, no access | stack: grows down from the top |  high
//
// A function touches its frame where it likes. Unless its compiler probes each page (-fstack-clash-protection), which
// nobody can ask of what users compile, a frame larger than the guard area jumps over it. The area is addresses only:
// what it costs is half a KiB of page tables a stack, as stacks of 1 MiB lie further apart (5,000 of them: 2.5 KiB a
// stack, with a guard of one page 2.0), and 0.5 us of 7.3 where one is made.
//
// Thread rule: a plain value; any thread.
//
// Invariants
//   GST-1  A function whose frame is at most kStackGuard large faults in the guard area when it runs out of stack.
#pragma once
#include <boost/context/stack_context.hpp>
#include <cstddef>

namespace troupe::exec {

inline constexpr std::size_t kStackGuard = 256 * 1024;

class GuardedStack {
 public:
  /// `size` of the stack itself, without its guard area; whole pages are made of it.
  explicit GuardedStack(std::size_t size) noexcept : size_(size) {}

  /// Throws std::bad_alloc.
  boost::context::stack_context allocate();
  void deallocate(boost::context::stack_context& stack) noexcept;

 private:
  std::size_t size_;
};

}  // namespace troupe::exec
