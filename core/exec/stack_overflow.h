// StackOverflowReport: a fiber that runs out of stack faults at its guard page; the process dies of that as it would
// have, but says first what it was. Without it a method that recurses too deep is a bare SIGSEGV.
//
// Thread rule: made and gone on the thread whose fibers it is for: the handler runs on a stack of that thread's own.
//
// Invariants
//   SO-1  A handler that somebody else has set stays; the process ends by the same signal as without this.
#pragma once
#include <cstddef>
#include <memory>

namespace troupe::exec {

class StackOverflowReport {
 public:
  /// `stack_size`: of a fiber, for the text.
  explicit StackOverflowReport(std::size_t stack_size);
  ~StackOverflowReport();
  StackOverflowReport(const StackOverflowReport&) = delete;
  StackOverflowReport& operator=(const StackOverflowReport&) = delete;

 private:
  std::unique_ptr<std::byte[]> stack_;
};

}  // namespace troupe::exec
